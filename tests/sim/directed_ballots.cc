// Ballots, promises, epochs.
#include "tests/sim/stage.h"

namespace penstock::sim {
namespace {

using Pairs = Stage::Pairs;

constexpr SimMicros kHour = 3600 * kSecond;
const std::string kKey = "key";
const std::string kBody(32, 'b');

Pairs if_absent() { return Pairs{{"if-none-match", "*"}}; }

std::uint64_t true_micros(Stage& stage) {
  return static_cast<std::uint64_t>(stage.gateway(0).clock().wall().time_since_epoch().count());
}

std::vector<GroupEpoch> epochs_ahead(const ClusterMap& map, std::uint64_t by) {
  std::vector<GroupEpoch> epochs;
  for (std::uint32_t group = 0; group < map.groups.size(); ++group) {
    auto entry = map.groups[group];
    entry.epoch.value += by;
    epochs.push_back(GroupEpoch{GroupId{group}, entry.epoch, group_digest(entry)});
  }
  return epochs;
}

}  // namespace

// Two gateways whose first ballots have one counter and one operation number: the process id alone
// tells them apart, and only one may win.
Violations one_process_id_each(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  for (int round = 0; round < 12; ++round) {
    const std::string key = "key" + std::to_string(round);
    const int one = stage.add_gateway();
    const int other = stage.add_gateway();
    stage.ask(one, "GET", key);
    stage.ask(other, "GET", key);
    const auto first = stage.begin(one, "PUT", key, std::string(32, '1'), if_absent());
    const auto second = stage.begin(other, "PUT", key, std::string(32, '2'), if_absent());
    stage.run_until([&] { return first->has_value() && second->has_value(); });
    const bool both = first->has_value() && second->has_value() && (*first)->status == 200 &&
                      (*second)->status == 200;
    stage.expect(!both, "two PUTs with If-None-Match won " + key);
  }
  return stage.violations;
}

// R2: one gateway and one volume are an hour ahead. Nothing is accepted in the future, neither by
// the others' consent nor because someone follows the highest demand.
Violations one_clock_ahead(SimClusters& clusters) {
  Stage stage(clusters, 3, 3);
  for (int i = 0; i < 3; ++i) stage.ask(i, "GET", kKey);
  stage.gateway(1).clock().jump(kHour);
  const auto alone = stage.begin(1, "PUT", kKey, kBody);
  stage.run_for(100 * kMillisecond);
  const auto soon = true_micros(stage) + static_cast<std::uint64_t>(kHour / 2);
  for (std::size_t i = 0; i < 3; ++i) {
    stage.expect(stage.row(i, kKey).ballot.counter < soon, "a clock ahead wrote a future ballot");
  }
  const auto replicas = stage.replicas(kKey);
  stage.volume(replicas[0]).clock().jump(kHour);
  stage.run_for(100 * kMillisecond);  // it promises the gateway's ballot; the others do not
  stage.gateway(1).kill();
  stage.ask(2, "GET", kKey);
  stage.gateway(2).clock().jump(10'000 * kMillisecond);
  stage.cut(2, replicas[0], true);
  stage.cut(2, replicas[2], true);
  const auto later = stage.begin(2, "PUT", kKey, kBody);  // one of them promises 10 s ahead
  stage.run_for(5 * kMillisecond);
  stage.gateway(2).kill();
  // A refused round goes by the first majority of answers: here the others'.
  stage.gateway(0).wires()[replicas[0]]->slow_answers = kMillisecond;
  const auto put = stage.ask(0, "PUT", kKey, kBody);
  stage.expect(put.status == 200, "a PUT fails beside one clock ahead: " + put.body);
  for (std::size_t i = 0; i < 3; ++i) {
    stage.expect(stage.row(i, kKey).ballot.counter < soon, "one replica's future was followed");
  }
  return stage.violations;
}

// R2: where a majority is ahead it must be followed, or nobody can write any more.
Violations majority_ahead(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  for (int i = 0; i < 2; ++i) stage.ask(i, "GET", kKey);
  const auto replicas = stage.replicas(kKey);
  for (const std::size_t i : {replicas[0], replicas[1]}) stage.volume(i).clock().jump(kHour);
  stage.gateway(1).clock().jump(kHour);
  stage.cut(1, replicas[2], true);
  const auto ahead = stage.ask(1, "PUT", kKey, kBody);
  stage.expect(ahead.status == 200, "a majority that is ahead does not write: " + ahead.body);
  stage.gateway(1).kill();
  for (const std::size_t i : {replicas[0], replicas[1]}) stage.volume(i).clock().agree();
  stage.cut(0, replicas[1], true);
  const auto put = stage.ask(0, "PUT", kKey, std::string(40, 'c'));
  stage.expect(put.status == 200, "a majority in the future is not followed: " + put.body);
  return stage.violations;
}

// R5: the accepts that a majority did not wait for still arrive.
Violations slow_replica_catches_up(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  for (const auto& wire : stage.gateway(0).wires()) {
    wire->slow_requests = 150 * kMillisecond;
    stage.ask(0, "PUT", kKey, kBody);
    wire->slow_requests = 0;
    stage.run_for(1'000 * kMillisecond);
    const auto first = stage.row(0, kKey).ballot;
    for (std::size_t i = 1; i < 3; ++i) {
      stage.expect(stage.row(i, kKey).ballot == first, "a slow replica never got the accept");
    }
  }
  return stage.violations;
}

// R4: replica A promises a high ballot, restarts, and is then asked to accept a lower one. Were the
// promise forgotten, both updates would see an absent key and win.
Violations promise_outlives_restart(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  for (int i = 0; i < 2; ++i) stage.ask(i, "GET", kKey);
  const auto replicas = stage.replicas(kKey);
  stage.gateway(1).clock().jump(1'000 * kMillisecond);
  for (const auto& wire : stage.gateway(0).wires()) {
    wire->slow_requests = wire->slow_answers = 60 * kMillisecond;
  }
  for (const auto& wire : stage.gateway(1).wires()) wire->slow_answers = 240 * kMillisecond;
  stage.cut(1, replicas[2], true);
  const auto low = stage.begin(0, "PUT", kKey, std::string(32, '1'), if_absent());
  stage.run_for(90 * kMillisecond);  // its fast check gives up, its prepare is on the way
  const auto high = stage.begin(1, "PUT", kKey, std::string(32, '2'), if_absent());
  stage.run_for(65 * kMillisecond);  // promised by two, and they have not told so yet
  stage.volume(replicas[0]).kill();
  const auto started = stage.volume(replicas[0]).start();
  stage.expect(started.has_value(), "a volume does not start");
  stage.run_until([&] { return low->has_value() && high->has_value(); });
  const bool both =
      low->has_value() && high->has_value() && (*low)->status == 200 && (*high)->status == 200;
  stage.expect(!both, "two PUTs with If-None-Match won");
  return stage.violations;
}

// R5: an accept that waits for its sync is seen by the next prepare, which waits for it.
Violations queued_accepts_are_seen(SimClusters& clusters) {
  Stage stage(clusters, 3, 2, 3 * kMillisecond);
  for (int round = 0; round < 150; ++round) {
    const std::string key = "key" + std::to_string(round);
    for (int i = 0; i < 2; ++i) stage.ask(i, "GET", key);
    const auto first = stage.begin(0, "PUT", key, std::string(32, '1'), if_absent());
    stage.run_for(round * 37 % 9'000);
    const auto second = stage.begin(1, "PUT", key, std::string(32, '2'), if_absent());
    stage.run_until([&] { return first->has_value() && second->has_value(); });
    const bool both = first->has_value() && second->has_value() && (*first)->status == 200 &&
                      (*second)->status == 200;
    stage.expect(!both, "two PUTs with If-None-Match won " + key);
  }
  return stage.violations;
}

// R8: a PUT whose answers are lost is seen, then overwritten so often that its chain forgets it.
// Its gateway may not write it once more.
Violations overwritten_put_is_not_repeated(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  for (int i = 0; i < 2; ++i) stage.ask(i, "GET", kKey);
  const auto& wires = stage.gateway(0).wires();
  for (const auto& wire : wires) wire->slow_answers = 40 * kMillisecond;
  const auto put = stage.begin(0, "PUT", kKey, std::string(32, 'x'));
  stage.run_for(30 * kMillisecond);  // its promises are on the way; no answer follows them
  for (const auto& wire : wires) wire->cut_answers = true;
  stage.run_for(30 * kMillisecond);
  const bool seen = stage.ask(1, "GET", kKey).body == std::string(32, 'x');
  stage.expect(seen, "the schedule misses the accept");
  std::string last;
  for (int i = 0; i < 12; ++i) {
    last = std::string(32, static_cast<char>('a' + i));
    stage.ask(1, "PUT", kKey, last);
  }
  for (const auto& wire : wires) {
    wire->cut_answers = false;
    wire->slow_answers = 0;
  }
  stage.run_until([&] { return put->has_value(); });
  const auto got = stage.ask(1, "GET", kKey);
  stage.expect(!seen || got.body == last, "a PUT that was seen and overwritten came back");
  return stage.violations;
}

namespace {
// A PUT by a gateway whose promises come from all volumes that it reaches, and whose accept reaches
// the volume `only` alone.
Stage::Later put_at_one(Stage& stage, int gateway, std::size_t only, const std::string& body) {
  const auto& wires = stage.gateway(gateway).wires();
  for (const auto& wire : wires) wire->slow_answers = 40 * kMillisecond;
  auto put = stage.begin(gateway, "PUT", kKey, body);
  stage.run_for(30 * kMillisecond);  // its promises are on the way
  for (const auto& wire : wires) wire->cut_requests = wire != wires[only];
  const Ballot before = stage.row(only, kKey).ballot;
  const bool accepted = stage.run_until([&] { return stage.row(only, kKey).ballot != before; });
  stage.expect(accepted, "the schedule misses an accept");
  for (const auto& wire : wires) {
    wire->cut_requests = true;
    wire->slow_answers = 0;
  }
  return put;
}
}  // namespace

// R8: PUT x lies at A alone, PUT w at C alone, both on the same object. The gateway of x finds w
// and sends x once more, on w, which nobody chooses. Then x is chosen as it was at A, w is written
// again above it, and x is overwritten so often that the chain knows w and forgets x.
Violations put_below_its_base_is_not_repeated(SimClusters& clusters) {
  Stage stage(clusters, 3, 3);
  for (int i = 0; i < 3; ++i) stage.ask(i, "GET", kKey);
  stage.ask(2, "PUT", kKey, kBody);
  const auto replicas = stage.replicas(kKey);
  const std::size_t a = replicas[0], b = replicas[1], c = replicas[2];
  const auto first = put_at_one(stage, 0, a, std::string(32, 'x'));
  stage.cut(1, a, true);
  const auto other = put_at_one(stage, 1, c, std::string(32, 'w'));
  const auto& wires = stage.gateway(0).wires();
  wires[b]->slow_requests = 100 * kMillisecond;  // its second accept comes too late there
  wires[b]->cut_requests = wires[c]->cut_requests = false;
  const Ballot before = stage.row(c, kKey).ballot;
  const bool again = stage.run_until([&] { return stage.row(c, kKey).ballot != before; });
  stage.expect(again, "the schedule misses the second accept");
  wires[b]->cut_requests = wires[c]->cut_requests = true;
  stage.cut(2, c, true);
  std::string last(32, '0');
  stage.expect(stage.ask(2, "PUT", kKey, last).status == 200, "a PUT has no majority");
  stage.cut(1, a, false);
  stage.cut(1, b, false);
  stage.run_until([&] { return other->has_value(); });
  stage.expect(other->has_value() && (*other)->status == 200, "the schedule misses the base");
  stage.cut(2, c, false);
  for (int i = 1; i < 8; ++i) {
    last = std::string(32, static_cast<char>('0' + i));
    stage.expect(stage.ask(2, "PUT", kKey, last).status == 200, "a PUT fails");
  }
  for (const auto& wire : wires) {
    wire->cut_requests = false;
    wire->slow_requests = 0;
  }
  stage.run_until([&] { return first->has_value(); });
  stage.expect(first->has_value() && (*first)->status == 503, "it is not told as unknown");
  stage.expect(stage.ask(2, "GET", kKey).body == last, "a PUT that was overwritten came back");
  return stage.violations;
}

// R12: volumes of another epoch take no part in a round, do not go back, and spread no row that was
// accepted before.
Violations epoch_of_the_volumes(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  stage.ask(0, "GET", kKey);
  const auto replicas = stage.replicas(kKey);
  stage.cut(0, replicas[1], true);
  stage.cut(0, replicas[2], true);
  stage.ask(0, "PUT", kKey, kBody);  // no quorum
  for (const std::size_t i : {replicas[0], replicas[1]}) {
    const auto set = stage.wait(stage.volume(i).set_epochs(epochs_ahead(stage.map(), 1)));
    stage.expect(set.has_value(), "a volume does not take the next epoch");
  }
  const auto put = stage.ask(1, "PUT", kKey, kBody);
  stage.expect(put.status != 200, "a PUT of an old epoch is acknowledged");
  const auto back = stage.wait(stage.volume(replicas[0]).set_epochs(epochs_ahead(stage.map(), 0)));
  stage.expect(!back.has_value(), "a volume went back to an old epoch");
  return stage.violations;
}

}  // namespace penstock::sim
