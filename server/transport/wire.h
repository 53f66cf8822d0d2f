// Frames between processes: the calls of VolumeClient as bytes. Frozen per version, golden-tested.
//
// A frame is a fixed header, then the fields of one message, then payload (bytes of fragments). All
// numbers are little endian. README.md shows them byte by byte. Every request is idempotent: after
// a lost connection the caller asks again. Thread-safety: pure functions.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/result.h"
#include "penstock/volume_client.h"

namespace penstock::wire {

inline constexpr std::uint32_t kMagic = 0x4b545350;  // "PSTK"
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 80;
inline constexpr std::size_t kFieldsBytesMax = 16 * limits::kMiB;  // lists: kReplyBytesMax
// What a volume gives of a fragment at a time, with the rest of its first and last block. Pieces
// are smaller, but other releases send and ask for as much.
inline constexpr std::size_t kPayloadBytesMax =
    FragmentReadRequest::kBytesMax + 2 * limits::kBlockBytes;

// On the wire, never renumber.
enum class Operation : std::uint8_t {
  hello = 1,
  prepare = 2,
  accept = 3,
  read = 4,
  scan = 5,
  drop = 6,
  write_fragment = 7,
  append = 8,
  commit = 9,
  read_fragment = 10,
  pin = 11,
  remove_fragment = 12,
  status = 13,
  pin_for_reader = 14,
  remove_fragment_if = 15,
  list_fragments = 16,
  list_hints = 17,
  read_hint = 18,
  drop_hints = 19,
  list_registers = 20,
  adopt = 21,
  read_map = 22,
  read_join_state = 23,
  probe = 24,
  discard = 25,  // of a fragment that is being written; has no reply
  ping = 26,     // answered at once
  // What the server says of itself: the reply's fields are one JSON object. Who reads it passes
  // over keys that it does not know.
  describe = 27,
  read_note = 28,
  put_note = 29,
  announce = 30,  // of a server, where its volumes are served
};

// Others are of newer releases.
inline constexpr bool is_known(Operation operation) {
  return operation >= Operation::hello && operation <= Operation::announce;
}
// For logs and metrics: "read_fragment" …; "unknown".
std::string_view operation_name(Operation operation);

// The request id of an answer to nobody, with which a server that stops ends what it takes: from
// then on it refuses what begins. No caller gives it to a request.
inline constexpr std::uint64_t kFarewell = 0;

struct Header {
  Operation operation = Operation::hello;
  bool reply = false;
  bool failed = false;   // reply: the fields are a Failure
  bool leaving = false;  // reply: this process stops soon; begin nothing new here
  bool traced = false;   // request: the last kTraceBytes of the fields name whom it is for
  // The fields hold a checksum of each block of the payload, which has none of its own: an append,
  // the reply of read_fragment.
  bool block_checksums = false;
  std::uint64_t request_id = 0;
  VolumeId volume;
  Epoch map_epoch;
  std::array<unsigned char, 16> map_digest{};  // the first half of the map's SHA-256
  std::uint32_t fields_bytes = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t fields_crc = 0;   // CRC32C of the fields
  std::uint32_t payload_crc = 0;  // CRC32C of the payload; 0 without one, or of its own
  // Request: how long its caller waits from now on. A duration, since clocks of machines differ.
  std::uint32_t patience_ms = 0;
  bool operator==(const Header&) const = default;
};

// kHeaderBytes bytes that end with their own CRC32C.
std::string encode(const Header& header);
// The operation may be one that is not known: its frame can be told apart all the same.
// Errors: corrupt - short, wrong magic, version, checksum, no operation or a length over its bound.
Result<Header> decode_header(std::string_view bytes);

// The request of a client that a call belongs to, behind the fields; only if both sides know how
// (kFeatureTrace in hello.h). Errors: corrupt - there are not so many bytes.
inline constexpr std::size_t kTraceBytes = 24;
void append_trace(std::string& fields, const Trace& trace);
Result<Trace> take_trace(std::string& fields);

// ---- fields. Errors of every decode: corrupt - lengths that do not fit, an unknown kind, bytes
// left.
struct Failure {  // the fields of a failed reply
  Error error;
};
// The answer to a call that the server's release does not have: nothing was done, and nothing else
// is wrong with server or volume. Its caller does without, until that server is upgraded.
Error unknown_call(Operation operation);
bool is_unknown_call(const Error& error);

std::string encode(const Failure& failure);
std::string encode(const PrepareRequest& request);
std::string encode(const PrepareReply& reply);
std::string encode(const AcceptRequest& request);
std::string encode(const AcceptReply& reply);
std::string encode(const ReadRequest& request);
std::string encode(const Accepted& accepted);
std::string encode(const ScanRequest& request);
std::string encode(const ScanReply& reply);
std::string encode(const DropRequest& request);
Result<Failure> decode_failure(std::string_view bytes);
Result<PrepareRequest> decode_prepare_request(std::string_view bytes);
Result<PrepareReply> decode_prepare_reply(std::string_view bytes);
Result<AcceptRequest> decode_accept_request(std::string_view bytes);
Result<AcceptReply> decode_accept_reply(std::string_view bytes);
Result<ReadRequest> decode_read_request(std::string_view bytes);
Result<Accepted> decode_accepted(std::string_view bytes);
Result<ScanRequest> decode_scan_request(std::string_view bytes);
Result<ScanReply> decode_scan_reply(std::string_view bytes);
Result<DropRequest> decode_drop_request(std::string_view bytes);

// Fragments: which, how long; the bytes themselves are payload.
struct WriteFragment {
  FragmentId id;
  FragmentShape shape;
};
// The fragment that is being written is named by the request id of its write_fragment, on the same
// connection; so are the pieces that follow it.
struct Append {
  std::uint64_t transfer = 0;
  std::vector<std::uint32_t> crcs;  // of the payload's blocks
};
struct EndTransfer {  // commit, discard
  std::uint64_t transfer = 0;
};
std::string encode(const WriteFragment& message);
std::string encode(const Append& message);
std::string encode(const EndTransfer& message);
std::string encode(const FragmentReadRequest& request);
std::string encode(const std::vector<std::uint32_t>& crcs);  // the reply of read_fragment
std::string encode(const std::vector<FragmentId>& ids);      // pins, their replies, remove_fragment
// Where a volume is served, as its server says. Of two the later start counts; of two that name
// one start, the process that began later: it was stopped before its start was counted.
struct Place {
  VolumeId volume;
  std::uint64_t start = 0;
  std::uint64_t since = 0;  // when its process began, by the wall clock of its machine, in us
  std::string address;      // HOST:PORT
  bool operator==(const Place&) const = default;
};
// The reply of status: of all volumes of the server.
struct ServerStatus {
  std::vector<std::pair<VolumeId, VolumeStatus>> volumes;
  std::vector<Place> places;  // what other servers have told of themselves
};
std::string encode(const ServerStatus& status);
Result<WriteFragment> decode_write_fragment(std::string_view bytes);
Result<Append> decode_append(std::string_view bytes);
Result<EndTransfer> decode_end_transfer(std::string_view bytes);
Result<FragmentReadRequest> decode_fragment_read(std::string_view bytes);
Result<std::vector<std::uint32_t>> decode_block_crcs(std::string_view bytes);
Result<std::vector<FragmentId>> decode_fragment_ids(std::string_view bytes);
Result<ServerStatus> decode_status(std::string_view bytes);

// Upkeep.
struct RemoveFragment {
  FragmentId id;
  RemovalRule rule = RemovalRule::always;
};
struct ListFragments {
  std::optional<FragmentId> after;
  std::uint32_t count = 0;
};
std::string encode(const RemoveFragment& message);
std::string encode(const ListFragments& message);
std::string encode(const std::vector<FragmentEntry>& entries);
std::string encode(const HintListRequest& request);
std::string encode(const HintListReply& reply);
std::string encode(const std::vector<HintName>& names);  // read_hint, drop_hints
std::string encode(const Ballot& ballot);                // the reply of read_hint
std::string encode(const RegisterListRequest& request);
std::string encode(const RegisterListReply& reply);
Result<RemoveFragment> decode_remove_fragment(std::string_view bytes);
Result<ListFragments> decode_list_fragments(std::string_view bytes);
Result<std::vector<FragmentEntry>> decode_fragment_entries(std::string_view bytes);
Result<HintListRequest> decode_hint_list_request(std::string_view bytes);
Result<HintListReply> decode_hint_list_reply(std::string_view bytes);
Result<std::vector<HintName>> decode_hint_names(std::string_view bytes);
Result<Ballot> decode_ballot(std::string_view bytes);
Result<RegisterListRequest> decode_register_list_request(std::string_view bytes);
Result<RegisterListReply> decode_register_list_reply(std::string_view bytes);

// The map and its epochs. The reply of read_map is the text as it is.
std::string encode(const AdoptRequest& request);
std::string encode(const JoinState& state);
Result<AdoptRequest> decode_adopt_request(std::string_view bytes);
Result<JoinState> decode_join_state(std::string_view bytes);

// What volumes note of one another.
struct ReadNote {
  std::string name;
};
struct PutNote {
  std::string name;
  std::string bytes;
};
std::string encode(const ReadNote& message);
std::string encode(const PutNote& message);
std::string encode(const NoteReply& reply);
Result<ReadNote> decode_read_note(std::string_view bytes);
Result<PutNote> decode_put_note(std::string_view bytes);
Result<NoteReply> decode_note_reply(std::string_view bytes);

std::string encode(const std::vector<Place>& places);
Result<std::vector<Place>> decode_places(std::string_view bytes);

}  // namespace penstock::wire
