// Single rounds: what an answer may be built on, and what a refusal may claim.
#include "tests/sim/stage.h"

namespace penstock::sim {
namespace {

const std::string kOld(40, 'o');
const std::string kNew(40, 'n');
constexpr int kNoRoom = 507;  // InsufficientStorage: nothing has happened

void set_full(Stage& stage, const std::vector<std::size_t>& volumes, bool full) {
  for (const std::size_t i : volumes) stage.volume(i).set_full(full);
  stage.run_for(kSecond);
}

// A PUT that was refused for want of room is not found when there is room again, not even by who
// asks the one volume that may have taken it and one more.
void expect_refused_is_gone(Stage& stage, const SimGateway::Answer& put, const std::string& key) {
  stage.volume(stage.replicas(key)[2]).kill();
  const auto got = stage.ask(0, "GET", key);
  stage.expect(got.status == 200, "a key cannot be read: " + got.body);
  // Once one volume has taken it, full ones do too: it is settled, not written.
  stage.expect(put.status != 200 || got.body == kNew, "an acknowledged PUT is lost");
  stage.expect(put.status != kNoRoom || got.body == kOld,
               "a PUT happened that was said not to have");
}

// A PUT whose accepts reach one volume only, which is slow to tell of it, while all become full.
// False: the accepts went elsewhere.
bool play_two_rounds(Stage& stage, SimMicros wait) {
  const auto replicas = stage.replicas("key");
  const auto wire = [&](std::size_t i) -> Wire& { return *stage.gateway(0).wires()[replicas[i]]; };
  const auto holds_old = [&, before = stage.row(replicas[0], "key").ballot](std::size_t i) {
    return stage.row(replicas[i], "key").ballot == before;
  };
  for (const std::size_t i : {1, 2}) wire(i).slow_answers = 3 * kMillisecond;
  const auto put = stage.begin(0, "PUT", "key", kNew);
  stage.run_for(wait);  // the prepares have gone out, their answers come later
  for (const std::size_t i : {1, 2}) wire(i).cut_requests = true;
  stage.run_for(50 * kMillisecond);
  const bool one_alone = !holds_old(0) && holds_old(1) && holds_old(2);
  for (const std::size_t i : replicas) stage.volume(i).set_full(true);
  for (const std::size_t i : {1, 2}) {
    wire(i).cut_requests = false;
    wire(i).slow_answers = 0;
  }
  wire(0).slow_answers = 20 * kMillisecond;
  stage.run_until([&] { return put->has_value(); });
  wire(0).slow_answers = 0;
  set_full(stage, replicas, false);
  stage.expect(put->has_value(), "a PUT hangs");
  if (one_alone && put->has_value()) expect_refused_is_gone(stage, **put, "key");
  return one_alone;
}

}  // namespace

// Two processes may count alike: a value lies at a majority when its ballot does, not its counter.
Violations ballots_of_two_processes_differ(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  stage.stop_background();
  const RegisterRef ref = stage.object("key");
  const auto replicas = stage.replicas("key");
  for (int i = 0; i < 2; ++i) stage.ask(i, "GET", "other");
  const auto lower = stage.accept_of(ref, empty_object(), 0);
  auto higher = std::make_shared<AcceptRequest>(*stage.accept_of(ref, empty_object(), 0));
  higher->ballot = lower->ballot;
  ++higher->ballot.process;
  const auto put = [&](std::size_t volume, std::shared_ptr<AcceptRequest> accept) {
    const auto reply =
        stage.wait(stage.volume(volume).current()->accept(std::move(accept), stage.until()));
    stage.expect(reply && reply->accepted, "a value is not accepted");
  };
  put(replicas[0], higher);
  put(replicas[1], lower);
  stage.cut(0, replicas[2], true);
  const auto seen =
      stage.wait(stage.gateway(0).proposer().read(ref, ReadWant::value, stage.until()));
  stage.volume(replicas[0]).kill();
  const auto again =
      stage.wait(stage.gateway(1).proposer().read(ref, ReadWant::value, stage.until()));
  stage.expect(seen && again && seen->op_id() == again->op_id(),
               "two reads see the values of two processes");
  return stage.violations;
}

// R5: an accept binds like a promise, though the acceptor never gave one: whoever was promised less
// would decide on a base that the accepted value outranks.
Violations accepted_value_outranks_prepares(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const auto client = stage.volume(0).current();
  const RegisterRef ref = stage.object("key");
  const auto accept = stage.accept_of(ref, empty_object(), 20 * kSecond);
  const auto accepted = stage.wait(client->accept(accept, stage.until()));
  stage.expect(accepted && accepted->accepted, "an accept without a promise is refused");
  for (const SimMicros below : {SimMicros{1}, kSecond}) {
    const auto reply = stage.wait(client->prepare(prepare_of(*accept, -below), stage.until()));
    stage.expect(!reply || !reply->promised, "a ballot below the accepted one is promised");
  }
  return stage.violations;
}

// R6: the record is read from one that held the ballot of the majority. If it holds another one
// by then, nobody has chosen that: what a GET answers must still be there without that volume.
Violations record_is_of_the_agreed_ballot(SimClusters& clusters) {
  for (std::size_t silent = 0; silent < 3; ++silent) {  // one of them is asked for the record
    for (SimMicros wait = 1; wait <= 8; ++wait) {       // the others agree after one of these times
      Stage stage(clusters, 3, 1);
      stage.stop_background();
      stage.ask(0, "PUT", "key", kOld);
      stage.run_for(kSecond);  // until all three have it
      const auto replicas = stage.replicas("key");
      const std::size_t next = replicas[(silent + 1) % 3];
      stage.gateway(0).wires()[replicas[silent]]->cut_answers = true;
      const auto get = stage.begin(0, "GET", "key");
      stage.run_for(wait * kMillisecond);
      stage.inject(next, stage.object("key"), empty_object(), 20 * kSecond);
      stage.run_until([&] { return get->has_value(); });
      stage.volume(next).kill();
      stage.gateway(0).wires()[replicas[silent]]->cut_answers = false;
      const auto again = stage.ask(0, "GET", "key");
      stage.expect(get->has_value() && (*get)->status == 200 && again.status == 200,
                   "a key cannot be read");
      stage.expect(get->has_value() && (*get)->body == again.body,
                   "a GET answers what nobody has chosen");
      if (!stage.violations.empty()) return stage.violations;
    }
  }
  return {};
}

// An accept that one volume took may still be chosen, whatever all others say.
Violations refusal_is_of_all(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  stage.ask(0, "PUT", "key", kOld);
  const auto replicas = stage.replicas("key");
  set_full(stage, {replicas[1], replicas[2]}, true);
  for (const std::size_t i : {1, 2}) {  // it is known that the first has taken it
    stage.gateway(0).wires()[replicas[i]]->slow_answers = 3 * kMillisecond;
  }
  const auto put = stage.ask(0, "PUT", "key", kNew);
  set_full(stage, {replicas[1], replicas[2]}, false);
  expect_refused_is_gone(stage, put, "key");
  return stage.violations;
}

// What a disk was given when it failed may be there after the next start, whatever all others say.
Violations refusal_beside_a_failed_disk_is_no_answer(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  stage.stop_background();
  stage.ask(0, "PUT", "key", kOld);
  stage.run_for(kSecond);  // until all three have it
  const auto replicas = stage.replicas("key");
  set_full(stage, {replicas[1], replicas[2]}, true);
  stage.volume(replicas[0]).disk().fail(FakeDisk::Call::sync, 1, FakeDisk::Fault::io);
  const auto put = stage.ask(0, "PUT", "key", kNew);
  stage.expect(stage.volume(replicas[0]).disk().failed_changes() > 0, "no accept is synced");
  stage.volume(replicas[0]).kill();
  const auto started = stage.volume(replicas[0]).start();
  stage.expect(started.has_value(), "a volume does not come back");
  set_full(stage, {replicas[1], replicas[2]}, false);
  if (stage.violations.empty()) expect_refused_is_gone(stage, put, "key");
  return stage.violations;
}

// The first round of a PUT reaches one volume; in the second, which does not see that, all refuse:
// the value of the first may still be chosen.
Violations refusal_of_a_later_round_is_no_answer(SimClusters& clusters) {
  bool played = false;
  for (SimMicros wait = kMillisecond; wait <= 12 * kMillisecond; wait += 500) {
    Stage stage(clusters, 3, 1);
    stage.stop_background();
    stage.ask(0, "PUT", "key", kOld);
    stage.run_for(kSecond);  // until all three have it
    played = play_two_rounds(stage, wait) || played;
    if (!stage.violations.empty()) return stage.violations;
  }
  return played ? Violations{} : Violations{"no first round reaches one volume alone"};
}

}  // namespace penstock::sim
