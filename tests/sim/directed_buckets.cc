// Deleted buckets, and lists.
#include "server/cluster/object_record.h"
#include "tests/sim/stage.h"

namespace penstock::sim {
namespace {

Stage::Pairs page_of_one(const std::string& token) {
  Stage::Pairs query{{"list-type", "2"}, {"max-keys", "1"}};
  if (!token.empty()) query.emplace_back("continuation-token", token);
  return query;
}

}  // namespace

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
  for (int i = 0; i < 4; ++i) stage.ask(1, "GET", "other");  // it suspects what it cannot reach
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

}  // namespace penstock::sim
