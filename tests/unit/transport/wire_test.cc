#include "server/transport/wire.h"

#include <doctest/doctest.h>

#include "penstock/text_codec.h"

namespace penstock::wire {
namespace {

RegisterKey part_key() {
  RegisterKey key;
  key.kind = RowKind::part;
  key.bucket = BucketId{7};
  key.key = std::string("k\0y", 3);
  key.upload_id = "u";
  key.part = 9;
  return key;
}

Round some_round() {
  Round round;
  round.group = GroupId{3};
  round.epoch = Epoch{4};
  round.digest = 6;
  round.bucket_number = BucketNumber{5};
  round.follows = true;
  return round;
}

Accepted some_accepted() {
  Accepted accepted;
  accepted.ballot = Ballot{1, 2, 3};
  accepted.epoch = Epoch{4};
  accepted.value = std::make_shared<const std::string>("value");
  return accepted;
}

AcceptRequest some_accept() {
  AcceptRequest request;
  request.key = part_key();
  request.ballot = Ballot{10, 11, 12};
  request.round = some_round();
  request.value = std::make_shared<const std::string>("v");
  request.inline_bytes = std::make_shared<const std::string>("");
  request.hints.push_back(Hint{WriteId{1, 2}, WallTime(Duration(77)), "where", "up"});
  return request;
}

// Encodes again what was decoded: equal bytes show that nothing was lost.
template <class Message, class Decode>
void round_trip(const Message& message, Decode decode) {
  const std::string bytes = encode(message);
  const auto back = decode(bytes);
  REQUIRE(back);
  CHECK(encode(*back) == bytes);
  CHECK_FALSE(decode(bytes + "x"));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(decode(std::string_view(bytes).substr(0, length)));
  }
}

TEST_CASE("every message comes back as it was sent, and no cut one does") {
  PrepareRequest prepare{part_key(), Ballot{1, 2, 3}, some_round()};
  round_trip(prepare, decode_prepare_request);
  PrepareReply promise;
  promise.promised = true;
  promise.accepted = some_accepted();
  promise.horizon = 8;
  round_trip(promise, decode_prepare_reply);
  round_trip(some_accept(), decode_accept_request);
  round_trip(AcceptReply{true, Ballot{4, 5, 6}}, decode_accept_reply);
  round_trip(ReadRequest{part_key(), some_round(), ReadWant::value_and_inline},
             decode_read_request);
  round_trip(some_accepted(), decode_accepted);
  round_trip(DropRequest{part_key(), Ballot{1, 2, 3}, some_round()}, decode_drop_request);
  round_trip(Failure{Error{Errc::full, "no space on v3"}}, decode_failure);
}

std::vector<Place> some_places() {
  return {Place{VolumeId{3}, 4, 5, "127.0.0.1:9200"}, Place{VolumeId{6}, 7, 8, "[::1]:9"}};
}

TEST_CASE("scans and fragments come back, too") {
  ScanRequest scan;
  scan.bucket = BucketId{3};
  scan.start = "a";
  scan.delimiter = "/";
  scan.fence = BucketNumber{6};
  round_trip(scan, decode_scan_request);
  ScanReply reply;
  reply.rows.push_back(ScanRow{"k", Ballot{1, 2, 3}, ValueKind::object, "sum", false});
  reply.rows.push_back(ScanRow{"l", Ballot{}, ValueKind::tombstone, "", true});
  reply.covered_to = "m";
  round_trip(reply, decode_scan_reply);
  const FragmentId id{WriteId{1, 2}, 3, Generation{4}};
  round_trip(WriteFragment{id, FragmentShape{99}}, decode_write_fragment);
  round_trip(Append{9, {1, 2, 3}}, decode_append);
  round_trip(EndTransfer{9}, decode_end_transfer);
  round_trip(FragmentReadRequest{id, 5, 6, false, true}, decode_fragment_read);
  round_trip(std::vector<std::uint32_t>{1, 2, 3}, decode_block_crcs);
  round_trip(std::vector<FragmentId>{id, id}, decode_fragment_ids);
  VolumeStatus status;
  status.state = VolumeStatus::State::closed;
  status.reason = "EIO";
  status.full = true;
  ServerStatus server;
  server.volumes.emplace_back(VolumeId{3}, status);
  server.volumes.emplace_back(VolumeId{4}, VolumeStatus{});
  server.places = some_places();
  round_trip(server, decode_status);
}

Header some_header() {
  Header header;
  header.operation = Operation::accept;
  header.reply = true;
  header.request_id = 0x0102030405060708;
  header.volume = VolumeId{9};
  header.map_epoch = Epoch{2};
  header.map_digest[0] = 0xaa;
  header.fields_bytes = 10;
  header.payload_bytes = 20;
  header.fields_crc = 30;
  header.payload_crc = 40;
  header.patience_ms = 250;
  header.leaving = true;
  header.block_checksums = true;
  return header;
}

TEST_CASE("an error that is not known is one of unknown outcome") {
  std::string bytes = encode(Failure{fail(Errc::full, "why")});
  bytes[0] = '\x7f';
  const auto failure = decode_failure(bytes);
  REQUIRE(failure);
  CHECK(failure->error.code == Errc::timeout);
  CHECK(failure->error.context == "why");
}

TEST_CASE("a header of the first version is frozen") {
  const std::string bytes = encode(some_header());
  REQUIRE(bytes.size() == kHeaderBytes);
  CHECK(hex_encode(bytes.substr(0, kHeaderBytes - 4)) ==
        "5053544b0103010008070605040302010900000000000000"
        "0200000000000000aa0000000000000000000000000000000a000000140000001e000000"
        "28000000fa0000000100"
        "010000000000");
  const auto back = decode_header(bytes);
  REQUIRE(back);
  CHECK(*back == some_header());
}

TEST_CASE("an accept of the first version is frozen") {
  CHECK(hex_encode(encode(some_accept())) ==
        "700700000000000000030000006b007901000000750900"
        "0a000000000000000b000000000000000c00000000000000"
        "03000000040000000000000006000000000000000500000000000000"
        "01000000000100"
        "0101000000760100000000"
        "01000000010000000000000002000000000000004d00000000000000"
        "050000007768657265020000007570");
}

HintListReply some_hints() {
  HintListReply reply;
  StoredHint hint;
  hint.name = HintName{WallTime(Duration(77)), WriteId{1, 2}};
  hint.ballot = Ballot{10, 11, 12};
  hint.bucket = BucketId{7};
  hint.partitions = 16;
  hint.key = "k";
  hint.upload_id = "up";
  hint.locations = "where";
  hint.age = Duration(9);
  reply.hints.push_back(hint);
  reply.count = 3;
  return reply;
}

std::vector<FragmentEntry> some_entries() {
  FragmentEntry entry;
  entry.id = FragmentId{WriteId{1, 2}, 3, Generation{4}};
  entry.data_bytes = 99;
  entry.unpinned = Duration(5);
  entry.owner = FragmentOwner{BucketId{7}, 16, "k", "up"};
  return {entry};
}

TEST_CASE("the messages of upkeep come back as well") {
  const FragmentId id{WriteId{1, 2}, 3, Generation{4}};
  round_trip(RemoveFragment{id, RemovalRule::unpinned}, decode_remove_fragment);
  round_trip(ListFragments{id, 1000}, decode_list_fragments);
  round_trip(some_entries(), decode_fragment_entries);
  HintListRequest hints;
  hints.after = HintName{WallTime(Duration(77)), WriteId{1, 2}};
  hints.due_until = WallTime(Duration(88));
  hints.count = true;
  round_trip(hints, decode_hint_list_request);
  round_trip(some_hints(), decode_hint_list_reply);
  round_trip(std::vector<HintName>{*hints.after}, decode_hint_names);
  round_trip(Ballot{1, 2, 3}, decode_ballot);
  RegisterListRequest list;
  list.kind = RowKind::part;
  list.after = part_key();
  list.only = ValueKind::tombstone;
  round_trip(list, decode_register_list_request);
  RegisterListReply rows;
  rows.rows.push_back(RegisterEntry{part_key(), 16, Ballot{1, 2, 3}, ValueKind::part, "sum"});
  rows.covered = part_key();
  rows.damaged = true;
  round_trip(rows, decode_register_list_reply);
}

TEST_CASE("the messages that change a map come back, and are frozen") {
  AdoptRequest request;
  request.map = std::make_shared<const std::string>("{}");
  request.epochs.push_back(GroupEpoch{GroupId{1}, Epoch{2}, {}});
  request.epochs.back().digest[31] = 0xff;
  request.join.horizon = 3;
  request.join.fences = {{BucketId{4}, BucketNumber{5}}};
  round_trip(request, decode_adopt_request);
  round_trip(request.join, decode_join_state);
  CHECK(hex_encode(encode(request)) ==
        "01020000007b7d01000000010000000200000000000000"
        "00000000000000000000000000000000000000000000000000000000000000ff"
        "03000000000000000100000004000000000000000500000000000000");
}

TEST_CASE("notes and places come back, and are frozen; what is too long is refused") {
  round_trip(ReadNote{"starts/x"}, decode_read_note);
  round_trip(PutNote{"starts/x", "7"}, decode_put_note);
  round_trip(NoteReply{std::nullopt, 9}, decode_note_reply);
  round_trip(NoteReply{"7", 9}, decode_note_reply);
  round_trip(some_places(), decode_places);
  CHECK(hex_encode(encode(PutNote{"starts/x", "7"})) == "080000007374617274732f780100000037");
  CHECK(hex_encode(encode(NoteReply{"7", 9})) == "0101000000370900000000000000");
  CHECK(hex_encode(encode(std::vector<Place>{some_places()[1]})) ==
        "01000000060000000000000007000000000000000800000000000000070000005b3a3a315d3a39");
  const std::string name(kNoteNameBytesMax, 'n'), bytes(kNoteBytesMax, 'b');
  CHECK(decode_put_note(encode(PutNote{name, bytes})));
  CHECK_FALSE(decode_put_note(encode(PutNote{name + "n", bytes})));
  CHECK_FALSE(decode_put_note(encode(PutNote{name, bytes + "b"})));
  CHECK_FALSE(decode_read_note(encode(ReadNote{name + "n"})));
  CHECK_FALSE(decode_note_reply(encode(NoteReply{bytes + "b", 1})));
  std::vector<Place> places(limits::kPlacesMax);
  CHECK(decode_places(encode(places)));
  places.emplace_back();
  CHECK_FALSE(decode_places(encode(places)));
  CHECK_FALSE(decode_places(encode(
      std::vector<Place>{{VolumeId{1}, 1, 1, std::string(limits::kAddressBytesMax + 1, 'a')}})));
}

TEST_CASE("the answers of upkeep of the first version are frozen") {
  CHECK(hex_encode(encode(some_hints())) ==
        "010000004d00000000000000010000000000000002000000000000000a00000000000000"
        "0b000000000000000c00000000000000070000000000000010000000010000006b020000"
        "0075700500000077686572650900000000000000"
        "0300000000000000");
  CHECK(hex_encode(encode(some_entries())) ==
        "010000000100000000000000020000000000000003040000000000000063000000000000"
        "00000500000000000000070000000000000010000000010000006b020000007570");
}

TEST_CASE("the frame of a call that this release does not know can be told apart") {
  Header header = some_header();
  header.operation = static_cast<Operation>(200);
  const auto back = decode_header(encode(header));
  REQUIRE(back);
  CHECK(*back == header);
  CHECK_FALSE(is_known(back->operation));
  CHECK(operation_name(back->operation) == "unknown");
  header.operation = static_cast<Operation>(0);
  CHECK_FALSE(decode_header(encode(header)));
}

TEST_CASE("the refusal of an unknown call is told from other wrong requests, across releases") {
  const Error refusal = unknown_call(static_cast<Operation>(200));
  CHECK(refusal.code == Errc::invalid);
  CHECK(refusal.context.starts_with("wire: unknown call 200"));
  const auto back = decode_failure(encode(Failure{refusal}));
  REQUIRE(back);
  CHECK(is_unknown_call(back->error));
  CHECK_FALSE(is_unknown_call(fail(Errc::invalid, "wire: no call of a volume")));
}

TEST_CASE("no flipped bit of a header goes unnoticed") {
  const std::string bytes = encode(some_header());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    CAPTURE(bit);
    CHECK_FALSE(decode_header(flipped));
  }
}

TEST_CASE("a count that lies allocates nothing") {
  CHECK_FALSE(decode_fragment_ids(std::string("\xff\xff\xff\xff", 4)));
  CHECK_FALSE(decode_scan_reply(std::string("\xff\xff\xff\x7f", 4) + std::string(100, 'x')));
}

}  // namespace
}  // namespace penstock::wire
