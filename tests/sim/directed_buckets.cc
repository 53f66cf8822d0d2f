// Deleted buckets, and lists.
#include "server/index/bucket_catalog.h"
#include "server/records/object_record.h"
#include "tests/sim/stage.h"

namespace penstock::sim {
namespace {

Stage::Pairs page_of_one(const std::string& token) {
  Stage::Pairs query{{"list-type", "2"}, {"max-keys", "1"}};
  if (!token.empty()) query.emplace_back("continuation-token", token);
  return query;
}

// Runs until so many volumes hold the bucket as `deleting`, under this number.
void run_to_deleting(Stage& stage, std::uint32_t number, std::size_t volumes) {
  const RegisterRef ref = BucketCatalog::register_of(SimClient::kBucket);
  const auto is_there = [&](std::size_t volume) {
    const auto row = stage.row_of(volume, ref);
    if (!row.value) return false;
    const auto record = bucket_record(*decode_value(ref.key, *row.value));
    return record && record->state == BucketState::deleting && record->number.value == number;
  };
  const auto reached = [&] {
    std::size_t there = 0;
    for (std::size_t i = 0; i < 3; ++i) there += is_there(i) ? 1 : 0;
    return there >= volumes;
  };
  for (int step = 0; step < 100'000 && !reached(); ++step) stage.run_for(1);
  stage.expect(reached(), "the schedule misses a bucket that is being deleted");
}

void slow_requests(Stage& stage, int gateway, SimMicros by) {
  for (const auto& wire : stage.gateway(gateway).wires()) wire->slow_requests = by;
}

}  // namespace

// A deleter has seen no key behind its fence and is late with the last step. Meanwhile the bucket
// was opened again, written to, and is being deleted by someone else: that is not its turn.
Violations late_deleter_removes_nothing(SimClusters& clusters) {
  Stage stage(clusters, 3, 3);
  stage.stop_background();
  for (int i = 0; i < 3; ++i) stage.ask(i, "GET", "key");
  const auto first = stage.begin(1, "DELETE", "");
  run_to_deleting(stage, 2, 3);
  stage.run_for(5);  // its scans have gone out
  slow_requests(stage, 1, 240 * kMillisecond);
  stage.run_for(kMillisecond);
  RegisterRef behind = stage.object("behind");
  behind.number = kPassesFences;
  for (std::size_t i = 0; i < 3; ++i) {
    stage.expect(stage.inject(i, behind, empty_object(), 0), "a value is not accepted");
  }
  const auto opened = stage.ask(0, "DELETE", "");
  stage.expect(opened.status == 409, "a bucket with a key is deleted: " + opened.body);
  const auto removed = stage.ask(0, "DELETE", "behind");
  stage.expect(removed.status == 204, "a DELETE fails: " + removed.body);
  const auto second = stage.begin(2, "DELETE", "");
  run_to_deleting(stage, 4, 2);
  slow_requests(stage, 2, 249 * kMillisecond);
  const auto put = stage.ask(0, "PUT", "kept", "kept");
  stage.expect(put.status == 200 && !first->has_value(), "the schedule misses its PUT");
  slow_requests(stage, 1, 0);
  stage.run_until([&] { return first->has_value(); });
  slow_requests(stage, 2, 0);
  stage.run_until([&] { return second->has_value(); });
  const auto got = stage.ask(0, "GET", "kept");
  stage.expect(got.status == 200, "a bucket was deleted with a key in it: " + got.body);
  return stage.violations;
}

// A PUT that arrives behind the deletion of its bucket is refused, also by volumes that have been
// restarted since.
Violations fence_outlives_restart(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const RegisterRef ref = stage.object("late");
  const auto dropped = stage.ask(0, "DELETE", "");
  stage.expect(dropped.status == 204, "an empty bucket is not deleted: " + dropped.body);
  stage.run_for(kSecond);
  for (std::size_t i = 0; i < 3; ++i) {
    stage.volume(i).kill();
    stage.expect(stage.volume(i).start().has_value(), "a volume does not start");
  }
  stage.run_for(kSecond);
  for (std::size_t i = 0; i < 3; ++i) {
    stage.expect(!stage.inject(i, ref, empty_object(), 20 * kSecond),
                 "a volume takes a PUT of a bucket that is gone");
  }
  return stage.violations;
}

// A reader sends on what a dead gateway left on one volume, while the bucket is deleted behind its
// back: it may not bring the key to a majority.
Violations resend_stops_at_the_fence(SimClusters& clusters) {
  Stage stage(clusters, 3, 3);
  stage.stop_background();
  const RegisterRef ref = stage.object("half");
  const auto replicas = stage.replicas("half");
  stage.cut(1, replicas[0], true);
  // It suspects what it cannot reach, once keys that are there first have been asked for.
  for (int i = 0; i < 8; ++i) stage.ask(1, "GET", "other" + std::to_string(i));
  stage.run_for(kSecond);
  stage.expect(stage.inject(replicas[0], ref, empty_object(), 0), "a value is not accepted");
  stage.ask(2, "GET", "other");
  stage.cut(2, replicas[2], true);  // the two that answer do not agree
  const auto& wires = stage.gateway(2).wires();
  for (const auto& wire : wires) wire->slow_answers = 10 * kMillisecond;
  const auto read =
      stage.start(stage.gateway(2).proposer().read(ref, ReadWant::value, stage.until()));
  stage.run_for(2 * kMillisecond);  // its questions have arrived, the answers are on the way
  for (const std::size_t i : {replicas[1], replicas[2]}) {
    wires[i]->slow_requests = 200 * kMillisecond;
  }
  stage.run_for(10 * kMillisecond);
  const auto dropped = stage.ask(1, "DELETE", "");
  stage.run_until([&] { return read->has_value(); });
  const bool both = dropped.status == 204 && read->has_value() && **read && (*read)->value().live();
  stage.expect(!both, "a key was read from a bucket that was deleted as empty");
  return stage.violations;
}

// The same where a client's operation has promises of before the fence, and its accepts come behind
// it: of a value found, which it settles, or of its own.
Violations accepts_stop_at_the_fence(SimClusters& clusters) {
  for (const bool own : {false, true}) {
    Stage stage(clusters, 3, 3);
    stage.stop_background();
    const RegisterRef ref = stage.object("half");
    const auto replicas = stage.replicas("half");
    stage.cut(1, replicas[0], true);
    // It suspects what it cannot reach, once keys that are there first have been asked for.
    for (int i = 0; i < 8; ++i) stage.ask(1, "GET", "other" + std::to_string(i));
    stage.run_for(kSecond);
    const bool held = own || stage.inject(replicas[0], ref, empty_object(), 0);
    stage.expect(held, "a value is not accepted");
    stage.ask(2, "GET", "other");
    stage.cut(2, replicas[2], true);
    const auto& wires = stage.gateway(2).wires();
    for (const auto& wire : wires) wire->slow_answers = 10 * kMillisecond;
    std::function<bool()> done;
    std::function<bool()> live;
    if (own) {
      const auto put = stage.begin(2, "PUT", "half", "half");
      done = [put] { return put->has_value(); };
      live = [put] { return (*put)->status == 200; };
    } else {
      const auto settled = stage.start(
          stage.gateway(2).proposer().write_back(ref, WriteBack::if_needed, false, stage.until()));
      done = [settled] { return settled->has_value(); };
      live = [settled] { return **settled && (*settled)->value().live(); };
    }
    stage.run_for(2 * kMillisecond);  // its prepares have arrived, the answers are on the way
    for (const std::size_t i : {replicas[1], replicas[2]}) {
      wires[i]->slow_requests = 200 * kMillisecond;
    }
    stage.run_for(10 * kMillisecond);
    const auto dropped = stage.ask(1, "DELETE", "");
    stage.expect(!done(), "the accepts are not late");
    stage.run_until(done);
    stage.expect(done(), "an operation hangs");
    const bool both = dropped.status == 204 && done() && live();
    stage.expect(!both, "a key was brought to a majority behind its bucket's deletion");
    if (!stage.violations.empty()) return stage.violations;
  }
  return {};
}

// Two replicas end their scans early, at rows of their own: that says nothing of what lies behind.
Violations short_scans_are_not_silence(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  constexpr int kKeys = 40;
  for (int i = 100; i < 100 + kKeys; ++i) {
    stage.ask(0, "PUT", "key" + std::to_string(i), std::string(32, 'k'));
  }
  stage.run_for(kSecond);
  for (std::size_t volume = 0; volume < 2; ++volume) {
    for (int i = 100; i < 120; ++i) {
      RegisterRef ref = stage.object("key");
      ref.key.key = (volume == 0 ? "a" : "b") + std::to_string(i);
      stage.inject(volume, ref, tombstone_value(), 0);
    }
  }
  std::string token;
  int keys = 0;
  for (int page = 0; page < 2 * kKeys; ++page) {
    const auto listed = stage.ask(0, "GET", "", "", {}, page_of_one(token));
    if (listed.status != 200) break;
    if (listed.body.find("<Contents>") != std::string::npos) ++keys;
    token = xml_element(listed.body, "NextContinuationToken");
    if (token.empty()) break;
  }
  stage.expect(keys == kKeys, "a LIST shows " + std::to_string(keys) + " of 40 keys");
  return stage.violations;
}

// A body is stored while its bucket is deleted and made again. Its fragments are those of the
// bucket that is gone: were they named by an object of the new one, the sweep would take them away.
Violations body_of_a_deleted_bucket_is_not_moved(SimClusters& clusters) {
  bool met = false;
  for (SimMicros wait = 60 * kMillisecond; wait <= 300 * kMillisecond; wait += 40 * kMillisecond) {
    Stage stage(clusters, 3, 2);
    for (int i = 0; i < 2; ++i) stage.ask(i, "GET", "other");
    const std::string body(20'000, 'b');
    slow_requests(stage, 0, 100 * kMillisecond);
    const auto put = stage.begin(0, "PUT", "key", body);
    stage.run_for(wait);
    const auto dropped = stage.ask(1, "DELETE", "");
    const auto made = stage.ask(1, "PUT", "");
    slow_requests(stage, 0, 0);
    met = met || (dropped.status == 204 && made.status == 200 && !put->has_value());
    stage.run_until([&] { return put->has_value(); });
    stage.expect(put->has_value(), "a PUT hangs");
    if (!stage.violations.empty()) return stage.violations;
    if ((*put)->status != 200) continue;
    stage.run_for(120 * kSecond);  // leases are over, the sweep has been
    const auto got = stage.ask(1, "GET", "key");
    stage.expect(got.status == 200 && got.body == body,
                 "the bytes of an acknowledged PUT are gone: " + got.body.substr(0, 100));
    if (!stage.violations.empty()) return stage.violations;
  }
  return met ? Violations{} : Violations{"no bucket is made again while a body is stored"};
}

}  // namespace penstock::sim
