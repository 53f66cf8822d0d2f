// Connections that break, stall, lie or belong to strangers: what a caller may conclude of a call.
#include <algorithm>
#include <array>

#include "server/volume/fragments/fragment_format.h"
#include "tests/sim/peer_stage.h"

namespace penstock::sim {
namespace {

const std::string kPeerKey = "key";
constexpr std::size_t kFragmentBytes = 60'000;

template <class T>
bool failed_with(const std::shared_ptr<std::optional<Result<T>>>& answer, Errc code) {
  return answer->has_value() && !**answer && (*answer)->error().code == code;
}

FragmentId fragment(std::uint64_t number) {
  return FragmentId{WriteId{1, number}, 0, Generation{3}};
}
std::string bytes_of(std::uint64_t number) {
  return std::string(kFragmentBytes, static_cast<char>('a' + number % 26));
}

// All but the commit.
Task<std::unique_ptr<FragmentWriter>> open_and_append(std::shared_ptr<VolumeClient> volume,
                                                      std::uint64_t number, Deadline until) {
  FragmentShape shape;
  shape.data_bytes = kFragmentBytes;
  const FragmentId id = fragment(number);
  CO_TRY(writer, co_await volume->write_fragment(id, shape, until));
  Buffer data = Buffer::copy_of(as_bytes(bytes_of(number)));
  std::vector<std::uint32_t> crcs;
  for (std::size_t at = 0; at < kFragmentBytes; at += limits::kBlockBytes) {
    const std::size_t length = std::min(limits::kBlockBytes, kFragmentBytes - at);
    const ConstBytes block = data.bytes().subspan(at, length);
    crcs.push_back(fragment_block_crc(id.write_id, 0, crcs.size(), block));
  }
  CO_CHECK(co_await writer->append(std::move(data), std::move(crcs), until));
  co_return std::unique_ptr<FragmentWriter>(std::move(writer));
}

Task<> write_whole(std::shared_ptr<VolumeClient> volume, std::uint64_t number, Deadline until) {
  CO_TRY(writer, co_await open_and_append(std::move(volume), number, until));
  co_return co_await writer->commit(until);
}

FragmentReadRequest read_whole(std::uint64_t number) {
  FragmentReadRequest request;
  request.id = fragment(number);
  request.length = kFragmentBytes;
  request.file_allowed = false;
  return request;
}

}  // namespace

// Its answer does not come, by the deadline or because the connection breaks: nobody knows.
Violations lost_call_is_unknown(SimClusters& clusters) {
  PeerStage stage(clusters);
  for (const bool breaks : {false, true}) {
    const std::string key = breaks ? "broken" : "late";
    const auto request = stage.accept_of(key);
    stage.cut_answers(0, true);
    const auto accepted = stage.start(stage.remote(0)->accept(request, stage.in(kSecond)));
    stage.run_for(200 * kMillisecond);
    if (breaks) stage.break_off(0);
    stage.run_until([&] { return accepted->has_value(); });
    stage.expect(stage.ballot_at(0, key) == request->ballot, "an accept that was sent is lost");
    stage.expect(failed_with(accepted, Errc::timeout),
                 "a call that was lost after it was sent counts as not done");
    stage.cut_answers(0, false);
    stage.run_for(25 * kSecond);
    stage.start(0);
  }
  return stage.violations;
}

// A frame that waits behind another one, which does not leave, is taken back at its deadline.
Violations unsent_call_is_not_done(SimClusters& clusters) {
  PeerStage stage(clusters);
  const auto large = stage.accept_of("large");
  large->inline_bytes = std::make_shared<const std::string>(2 * ByteNetwork::kWindowBytes, 'x');
  const auto request = stage.accept_of(kPeerKey);
  stage.cut_requests(0, true);
  const auto blocking = stage.start(stage.remote(0)->accept(large, stage.in(4 * kSecond)));
  stage.run_for(10 * kMillisecond);
  const auto waiting = stage.start(stage.remote(0)->accept(request, stage.in(kSecond)));
  stage.run_for(2 * kSecond);
  stage.expect(failed_with(waiting, Errc::unavailable),
               "a call that never left its process counts as unknown");
  stage.cut_requests(0, false);
  stage.run_for(25 * kSecond);
  stage.expect(blocking->has_value(), "a call hangs past its deadline");
  stage.expect(stage.ballot_at(0, kPeerKey).is_zero(), "a call that was taken back has left");
  return stage.violations;
}

// The answer that came too late belongs to a call that nobody waits for, not to the next one.
Violations late_answer_finds_nobody(SimClusters& clusters) {
  PeerStage stage(clusters);
  const auto first = stage.accept_of("first");
  const auto second = stage.accept_of("second", 5);
  for (const auto& request : {first, second}) {
    const auto done = stage.wait(stage.volume(0).opened()->accept(request, stage.in(kSecond)));
    stage.expect(done && done->accepted, "a value is not accepted");
  }
  stage.cut_answers(0, true);
  const auto late = stage.start(stage.remote(0)->read(stage.read_of("first"), stage.in(kSecond)));
  stage.run_for(1'500 * kMillisecond);
  stage.expect(failed_with(late, Errc::timeout), "a read is answered through a cut");
  const auto next =
      stage.start(stage.remote(0)->read(stage.read_of("second"), stage.in(2 * kSecond)));
  stage.run_for(100 * kMillisecond);
  stage.cut_answers(0, false);
  stage.run_until([&] { return next->has_value(); });
  stage.expect(**next && (**next)->ballot == second->ballot,
               "a call gets the answer of an earlier one");
  return stage.violations;
}

// What was under way when a connection broke may arrive when its caller has another one.
Violations late_frames_of_an_old_connection(SimClusters& clusters) {
  PeerStage stage(clusters);
  const auto old = stage.accept_of(kPeerKey);
  const auto newer = stage.accept_of(kPeerKey, 1'000);
  stage.network().faults().late = 1;
  stage.cut_requests(0, true);
  const auto lost = stage.start(stage.remote(0)->accept(old, stage.in(kSecond)));
  stage.run_for(10 * kMillisecond);
  stage.break_off(0);
  stage.network().faults().late = 0;
  stage.cut_requests(0, false);
  stage.run_for(25 * kSecond);
  stage.expect(failed_with(lost, Errc::timeout), "a call that was sent counts as not done");
  stage.start(0);
  const auto done = stage.wait(stage.remote(0)->accept(newer, stage.in(kSecond)));
  stage.expect(done && done->accepted, "a server does not serve after a break");
  stage.run_for(40 * kSecond);
  stage.expect(stage.ballot_at(0, kPeerKey) == newer->ballot, "a late frame undoes a newer one");
  return stage.violations;
}

// What was not committed goes with its connection; its name and its room are free again.
Violations broken_transfer_is_forgotten(SimClusters& clusters) {
  PeerStage stage(clusters);
  auto writer = stage.wait(open_and_append(stage.remote(0), 1, stage.in(5 * kSecond)));
  stage.expect(writer.has_value(), "a fragment cannot be written");
  if (!writer) return stage.violations;
  stage.run_for(kSecond);
  stage.break_off(0);
  stage.run_for(25 * kSecond);
  stage.start(0);
  const auto committed = stage.wait((*writer)->commit(stage.in(kSecond)));
  stage.expect(!committed, "a commit over a broken connection succeeds");
  stage.run_for(kSecond);
  const auto listed =
      stage.wait(stage.remote(0)->list_fragments(std::nullopt, 10, stage.in(kSecond)));
  stage.expect(listed && listed->empty(), "a fragment is there that was never committed");
  const auto again = stage.wait(write_whole(stage.remote(0), 1, stage.in(5 * kSecond)));
  stage.expect(again.has_value(), "a fragment cannot be written again after a break");
  const auto piece = stage.wait(stage.remote(0)->read_fragment(read_whole(1), stage.in(kSecond)));
  stage.expect(piece && as_text(piece->memory.bytes()) == bytes_of(1), "a fragment reads wrong");
  return stage.violations;
}

// A bit that flips on its way ends the connection: no answer is made of it.
Violations flipped_bits_are_noticed(SimClusters& clusters) {
  PeerStage stage(clusters);
  const auto written = stage.wait(write_whole(stage.remote(0), 2, stage.in(5 * kSecond)));
  stage.expect(written.has_value(), "a fragment cannot be written");
  const auto request = stage.accept_of(kPeerKey);
  const auto accepted = stage.wait(stage.remote(0)->accept(request, stage.in(kSecond)));
  stage.expect(accepted && accepted->accepted, "a value is not accepted");
  std::size_t answered = 0;
  for (int i = 0; i < 60; ++i) {
    stage.network().faults().flips = 0.3;
    const auto piece = stage.wait(stage.remote(0)->read_fragment(read_whole(2), stage.in(kSecond)));
    const auto row = stage.wait(stage.remote(0)->read(stage.read_of(kPeerKey), stage.in(kSecond)));
    stage.network().faults().flips = 0;
    const bool same =
        !row || (row->ballot == request->ballot && (!row->value || *row->value == *request->value));
    stage.expect(same, "a row that was altered on its way is believed");
    if (piece) ++answered;
    const bool right = !piece || as_text(piece->memory.bytes()) == bytes_of(2);
    stage.expect(right, "bytes that were altered on their way are believed");
    stage.run_for(2 * kSecond);
  }
  stage.expect(answered > 0 && answered < 60, "nothing was put to the test");
  return stage.violations;
}

// A server went away without a word and is back; what the caller has of it is a connection that
// nobody answers.
Violations silent_connection_is_given_up(SimClusters& clusters) {
  PeerStage stage(clusters);
  stage.cut_requests(0, true);
  stage.cut_answers(0, true);
  stage.server(0).die(SimServer::End::without_power);
  stage.run_for(100 * kMillisecond);
  stage.server(0).start([&](SimVolume&, const Error&) { stage.expect(false, "no start"); });
  stage.cut_requests(0, false);
  stage.cut_answers(0, false);
  const auto lost = stage.start(stage.remote(0)->probe(stage.in(kSecond)));
  stage.run_for(7 * kSecond);
  stage.expect(failed_with(lost, Errc::timeout), "a call over a dead connection is answered");
  const auto probed = stage.wait(stage.remote(0)->probe(stage.in(kSecond)));
  stage.expect(probed.has_value(), "a caller stays with a connection that nobody answers");
  return stage.violations;
}

// Without the key, or of another cluster: nobody is served, nor believed.
Violations strangers_are_refused(SimClusters& clusters) {
  PeerStage stage(clusters);
  auto wrong_key = std::make_shared<HelloTerms>(
      *make_terms(PeerRole::gateway, stage.map().cluster, "wrong key"));
  wrong_key->key.emplace(as_bytes("some other key"));
  const std::shared_ptr<const HelloTerms> strangers[] = {
      wrong_key, make_terms(PeerRole::gateway, ClusterId{6, 6}, "another cluster")};
  for (const auto& terms : strangers) {
    SimPeers& stranger = stage.add_caller(terms);
    const auto client = stranger.volume(stage.map().volumes[0]);
    stage.run_for(3 * kSecond);
    const auto probed = stage.wait(client->probe(stage.in(kSecond)));
    stage.expect(!probed, terms->name + ": a stranger is served");
    stage.expect(client->status().state != VolumeStatus::State::open,
                 terms->name + ": a stranger is told of volumes");
  }
  return stage.violations;
}

namespace {

// Keeps what is sent over a stream.
class TapedStream final : public ByteStream {
 public:
  TapedStream(ByteStream& stream, std::vector<std::string>& tape) : stream_(stream), tape_(tape) {}
  Task<std::size_t> receive(MutBytes buffer) override { return stream_.receive(buffer); }
  Task<> send(std::span<const ConstBytes> parts) override {
    std::string all;
    for (const ConstBytes part : parts) all += as_text(part);
    tape_.push_back(std::move(all));
    return stream_.send(parts);
  }
  void close() override { stream_.close(); }

 private:
  ByteStream& stream_;
  std::vector<std::string>& tape_;
};

Task<> send_text(ByteStream& stream, const std::string& text) {
  const std::array<ConstBytes, 1> parts{as_bytes(text)};
  co_return co_await stream.send(parts);
}

// Sends what was recorded; ok: it was let in.
Task<> play(ByteStream& stream, BufferPool& buffers, const std::vector<std::string>& tape) {
  FrameReader reader(stream, buffers);
  const FrameBounds bounds;
  for (const std::string& frame : tape) {
    CO_CHECK(co_await send_text(stream, frame));
    CO_TRY(head, co_await reader.read_head(bounds));
    if (!head || head->header.failed) co_return fail(Errc::refused, "not let in");
  }
  co_return Result<>{};
}

}  // namespace

// Who has recorded a hello gets nothing by sending it again: the server's nonce is another one.
Violations recorded_hello_is_refused(SimClusters& clusters) {
  PeerStage stage(clusters);
  NetworkProcess& network = *stage.caller().network;
  SimHost& host = *stage.caller().host;
  const std::string address = stage.server(0).address();
  auto first = stage.wait(network.dial(address));
  auto second = stage.wait(network.dial(address));
  stage.expect(first && second, "a server is not reached");
  if (!first || !second) return stage.violations;
  std::vector<std::string> tape;
  TapedStream taped(**first, tape);
  FrameReader reader(taped, host.buffers);
  const auto met = stage.wait(say_hello(
      taped, reader, make_terms(PeerRole::gateway, stage.map().cluster, "gateway"), host.random));
  stage.expect(met.has_value() && tape.size() == 2, "a hello is refused");
  const auto played = stage.wait(play(**second, host.buffers, tape));
  stage.expect(!played, "a recorded hello is let in");
  return stage.violations;
}

// Two maps of one epoch: one of them was never agreed upon. Other epochs are the rounds' matter.
Violations forked_map_is_refused(SimClusters& clusters) {
  PeerStage stage(clusters);
  const auto ask = [&] {
    return stage.start(stage.remote(0)->read(stage.read_of(kPeerKey), stage.in(kSecond)));
  };
  stage.stamp.digest[0] ^= 1;
  const auto forked = ask();
  stage.run_for(2 * kSecond);
  stage.expect(failed_with(forked, Errc::stale_epoch),
               "a caller with another map of the same epoch is served");
  stage.stamp.epoch.value += 1;
  const auto newer = ask();
  stage.run_for(2 * kSecond);
  stage.expect(newer->has_value() && (*newer)->has_value(),
               "a caller with a newer map is turned away by its connection");
  return stage.violations;
}

// What was begun at a server that stops gently is answered, and a fragment is written to its end;
// nothing new is begun there.
Violations gentle_stop_answers_what_began(SimClusters& clusters) {
  PeerStage stage(clusters);
  auto writer = stage.wait(open_and_append(stage.remote(0), 5, stage.in(5 * kSecond)));
  stage.expect(writer.has_value(), "a fragment cannot be written");
  if (!writer) return stage.violations;
  stage.volume(0).hang(HungDisk::kWrites);
  const auto request = stage.accept_of(kPeerKey);
  const auto accepted = stage.start(stage.remote(0)->accept(request, stage.in(8 * kSecond)));
  stage.run_for(100 * kMillisecond);
  stage.server(0).stop_gently(std::chrono::seconds(6));
  stage.run_for(2 * kSecond);
  stage.expect(stage.server(0).running(), "a server ends with calls under way");
  const auto read = stage.start(stage.remote(0)->read(stage.read_of(kPeerKey), stage.in(kSecond)));
  stage.run_for(50 * kMillisecond);
  stage.expect(failed_with(read, Errc::unavailable),
               "a call that begins at a server that stops is not refused at once");
  SimPeers& late = stage.add_caller(make_terms(PeerRole::gateway, stage.map().cluster, "late"));
  const auto other = late.volume(stage.map().volumes[0]);
  stage.run_for(kSecond);
  stage.expect(!stage.wait(other->probe(stage.in(kSecond))), "a server that stops takes callers");
  stage.volume(0).answer_again();
  const auto committed = stage.wait((*writer)->commit(stage.in(2 * kSecond)));
  stage.expect(committed.has_value(), "a fragment that was begun is not committed");
  writer->reset();
  stage.run_until([&] { return accepted->has_value(); });
  stage.expect(**accepted && (**accepted)->accepted, "a call that was begun is not answered");
  stage.run_for(2 * kSecond);
  stage.expect(!stage.server(0).running(), "a server does not end when nothing is under way");
  stage.start(0);
  const auto piece = stage.wait(stage.remote(0)->read_fragment(read_whole(5), stage.in(kSecond)));
  stage.expect(piece && as_text(piece->memory.bytes()) == bytes_of(5), "a fragment is lost");
  return stage.violations;
}

namespace {

// A server loses one of its two volumes, and its caller does not know it yet.
Violations call_a_volume_that_left(SimClusters& clusters) {
  PeerStage stage(clusters, 3, 2);
  stage.server(0).remove(stage.volume(0).id());
  const auto request = stage.accept_of(kPeerKey);
  const auto accepted = stage.wait(stage.remote(0)->accept(request, stage.in(kSecond)));
  stage.expect(!accepted, "a call to a volume that has left is answered");
  stage.expect(stage.ballot_at(1, kPeerKey).is_zero(), "a call reaches the volume beside it");
  return stage.violations;
}

}  // namespace

// Two servers change their volumes: an address is a hint, the volume's id is what counts.
Violations volumes_change_servers(SimClusters& clusters) {
  PeerStage stage(clusters);
  stage.violations = call_a_volume_that_left(clusters);
  for (const std::size_t i : {0, 1}) stage.server(i).die(SimServer::End::killed);
  const std::shared_ptr<SimVolume> moved[] = {stage.server(0).volumes()[0],
                                              stage.server(1).volumes()[0]};
  for (const std::size_t i : {0, 1}) {
    stage.server(i).remove(moved[i]->id());
    stage.server(i).add(moved[1 - i]);
  }
  for (const std::size_t i : {0, 1}) stage.start(i);
  const auto request = stage.accept_of(kPeerKey);
  const auto accepted = stage.start(stage.remote(0)->accept(request, stage.in(kSecond)));
  const auto written = stage.start(write_whole(stage.remote(0), 4, stage.in(kSecond)));
  stage.run_for(3 * kSecond);
  stage.expect(accepted->has_value() && written->has_value(), "a call does not end");
  stage.expect(stage.ballot_at(1, kPeerKey).is_zero(), "a call reaches another volume");
  stage.expect(stage.remote(0)->status().state == VolumeStatus::State::open,
               "a volume that went elsewhere is not found");
  const auto again = stage.start(stage.remote(0)->accept(request, stage.in(kSecond)));
  stage.run_for(kSecond);
  stage.expect(again->has_value() && **again, "a volume that was found takes no call");
  stage.expect(!stage.ballot_at(0, kPeerKey).is_zero(), "a call reaches no volume");
  return stage.violations;
}

}  // namespace penstock::sim
