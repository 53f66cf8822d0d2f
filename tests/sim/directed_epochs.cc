// Groups that change their list (R12).
#include "placement/map_change.h"
#include "server/membership/map_install.h"
#include "server/membership/replica_set.h"
#include "tests/sim/stage.h"

namespace penstock::sim {
namespace {

const std::string kMoved = "key";
const std::string kMovedBody(40, 'm');

ClusterMap next_epoch(const ClusterMap& map) {
  ClusterMap next = map;
  ++next.epoch.value;
  for (auto& group : next.groups) ++group.epoch.value;
  return next;
}

// Writes an absent key, but thinks about it until it may go on.
class SlowCreation final : public RegisterUpdate {
 public:
  SlowCreation(Clock& clock, OpId op_id) : clock_(clock), op_id_(op_id) {}
  Task<Decision> decide(const Snapshot& current) override {
    Decision decision;
    decision.error = fail(Errc::precondition, "it is there");
    if (current.live()) co_return decision;
    promised_ = true;
    while (!may_go_on) co_await clock_.sleep_until(clock_.boot() + std::chrono::milliseconds(1));
    decision.action = Decision::Action::write;
    decision.value = empty_object();
    co_return decision;
  }
  OpId op_id() const override { return op_id_; }
  bool promised() const { return promised_; }
  bool may_go_on = false;

 private:
  Clock& clock_;
  OpId op_id_;
  bool promised_ = false;
};

bool is_fenced(const JoinState& state, BucketId bucket) {
  return std::any_of(state.fences.begin(), state.fences.end(),
                     [bucket](const auto& fence) { return fence.first == bucket; });
}

}  // namespace

// One replica alone accepted a value of an old epoch, with a ballot ahead of the others' clocks,
// and was away when the rows were brought. It was never chosen: what was written since, stays.
Violations newest_epoch_wins(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  const auto replicas = stage.replicas(kMoved);
  const bool there = stage.inject(replicas[0], stage.object(kMoved), empty_object(), 2 * kSecond);
  stage.expect(there, "a value is not accepted");
  stage.adopt(next_epoch(stage.map()));
  for (int i = 0; i < 2; ++i) stage.cut(i, replicas[0], true);
  const auto put = stage.ask(0, "PUT", kMoved, kMovedBody);
  stage.expect(put.status == 200, "a PUT fails in the new epoch: " + put.body);
  stage.cut(1, replicas[0], false);
  stage.cut(1, replicas[2], true);
  const auto got = stage.ask(1, "GET", kMoved);
  stage.expect(got.status == 200 && got.body == kMovedBody,
               "a value of an old epoch won over an acknowledged one");
  return stage.violations;
}

// A promise of the old list says nothing of the new one: an accept carries the epoch in which it
// was promised, and is refused when that is over.
Violations accept_keeps_its_epoch(SimClusters& clusters) {
  Stage stage(clusters, 4, 2);
  const RegisterRef ref = stage.object(kMoved);
  const auto replicas = stage.replicas(kMoved);
  stage.expect(replicas.size() == 3, "the schedule wants three replicas of four volumes");
  stage.gateway(0).clock().jump(kSecond);
  stage.cut(0, replicas[1], true);
  Proposer& proposer = stage.gateway(0).proposer();
  SlowCreation slow(stage.gateway(0).clock(), proposer.new_op_id());
  const auto created = stage.start(proposer.update(ref, slow, stage.until()));
  stage.run_until([&] { return slow.promised(); });
  ClusterMap next = next_epoch(stage.map());
  VolumeId joining;
  for (std::size_t i = 0; i < 4; ++i) {
    if (std::find(replicas.begin(), replicas.end(), i) == replicas.end()) {
      joining = stage.volume(i).id();
    }
  }
  for (auto& group : next.groups) {
    auto& list = group.replicas;
    if (std::find(list.begin(), list.end(), joining) != list.end()) continue;
    std::replace(list.begin(), list.end(), stage.volume(replicas[2]).id(), joining);
  }
  stage.adopt(next);
  const auto put = stage.ask(1, "PUT", kMoved, kMovedBody, {{"if-none-match", "*"}});
  stage.expect(put.status == 200, "a PUT fails in the new epoch: " + put.body);
  stage.cut(0, replicas[1], false);
  stage.ask(0, "GET", "other");  // it learns of the new epoch
  slow.may_go_on = true;
  stage.run_until([&] { return created->has_value(); });
  stage.expect(created->has_value() && !**created, "two updates created one key");
  return stage.violations;
}

// While a group changes its list, a round wants majorities of both.
Violations both_lists_take_part(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  const auto replicas = stage.replicas(kMoved);
  const auto joining = stage.join_for(replicas[0]);
  if (!joining) return stage.violations;
  stage.ask(1, "GET", kMoved);
  // Of the new list one is left, of the old one two.
  stage.volume(*joining).kill();
  stage.cut(1, replicas[1], true);
  const auto put = stage.ask(1, "PUT", kMoved, kMovedBody);
  stage.expect(put.status != 200, "a PUT is acknowledged without a majority of the new list");
  return stage.violations;
}

// A majority of the old list alone holds a value in a joint epoch, behind the back of who brings
// the rows. Who is refused because of it has been told that it is there: it must outlive the old
// list.
Violations refusal_is_settled_in_both_lists(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  stage.stop_background();
  const RegisterRef ref = stage.object(kMoved);
  const auto replicas = stage.replicas(kMoved);
  const auto joining = stage.join_for(replicas[0]);
  if (!joining) return stage.violations;
  for (int i = 0; i < 2; ++i) stage.ask(i, "GET", "other");  // they learn of it
  SimGateway& gateway = stage.gateway(0);
  const auto joint = gateway.background_context().membership.map();
  const auto value = stage.accept_of(ref, empty_object(), 0);
  const auto set = replicas_of(*joint, value->round.group);
  value->round.epoch = set->epoch;
  value->round.digest = set->digest;
  for (const std::size_t i : {replicas[0], replicas[1]}) {
    const auto reply =
        stage.wait(stage.volume(i).current()->accept(value, stage.volume(i).bound()));
    stage.expect(reply && reply->accepted, "a value is refused in the joint epoch");
  }
  SlowCreation creation(gateway.clock(), gateway.proposer().new_op_id());
  const auto refused = stage.wait(gateway.proposer().update(ref, creation, stage.until()));
  stage.expect(!refused && refused.error().code == Errc::precondition,
               "an update does not see what a majority of the old list holds");
  auto next = end_joint(*joint);
  stage.expect(next.has_value(), "there is no map behind the joint one");
  if (!next) return stage.violations;
  stage.adopt(*next);
  stage.volume(replicas[1]).kill();
  const auto got = stage.ask(1, "GET", kMoved);
  stage.expect(got.status == 200, "an update was refused for a value that is gone: " + got.body);
  return stage.violations;
}

// The fence of a deleted bucket lies at two of the old volumes, which fall silent while a volume
// joins: what the third knows is not enough, it may have missed all that must not come back.
Violations silent_volumes_hold_up_a_join(SimClusters& clusters) {
  Violations violations;
  for (SimMicros moment = 50; moment < 1'000; moment += 50) {
    Stage stage(clusters, 3, 1);
    stage.stop_background();
    const RegisterRef ref = stage.object(kMoved);
    stage.cut(0, 2, true);
    const auto deleted = stage.ask(0, "DELETE", "");
    stage.expect(deleted.status == 204, "an empty bucket is not deleted: " + deleted.body);
    stage.cut(0, 2, false);
    const std::size_t joining = stage.add_volume(joining_entry());
    auto begun = begin_replacement(stage.map(), stage.volume(0).id(), joining_entry());
    const auto next = std::make_shared<const ClusterMap>(std::move(*begun));
    auto clients = stage.gateway(0).background_context().membership.volumes();
    clients.push_back(stage.links()[joining]);
    for (const auto& wire : stage.gateway(0).wires()) wire->slow_requests = 100;
    const auto installed =
        stage.start(install_map(next, std::move(clients), stage.gateway(0).clock(), stage.until()));
    stage.run_for(moment);
    for (const std::size_t i : {0, 1}) stage.volume(i).kill();
    stage.run_until([&] { return installed->has_value(); });
    const bool joined = installed->has_value() && **installed &&
                        std::count((*installed)->value().adopted.begin(),
                                   (*installed)->value().adopted.end(), joining_entry().id) > 0;
    const auto state = stage.wait(stage.volume(joining).current()->read_join_state(stage.until()));
    stage.expect(!joined || (state && is_fenced(*state, ref.key.bucket)),
                 "a volume joins without what a majority knew");
    violations.insert(violations.end(), stage.violations.begin(), stage.violations.end());
  }
  return violations;
}

// A volume that joins takes over what must not come back: the horizon and the fences.
Violations joining_volume_takes_over(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const RegisterRef ref = stage.object(kMoved);
  stage.ask(0, "PUT", kMoved, kMovedBody);
  stage.ask(0, "DELETE", kMoved);
  Proposer& proposer = stage.gateway(0).proposer();
  const auto mark = stage.wait(proposer.mark_tombstone(ref, stage.until()));
  stage.expect(mark && *mark, "a tombstone is not marked");
  if (!mark || !*mark) return stage.violations;
  (void)stage.wait(proposer.drop_tombstone(ref, **mark, stage.until()));
  const auto deleted = stage.ask(0, "DELETE", "");
  stage.expect(deleted.status == 204, "an empty bucket is not deleted: " + deleted.body);
  stage.run_for(kSecond);
  const auto joining = stage.join_for(0);
  if (!joining) return stage.violations;
  const auto state = stage.wait(stage.volume(*joining).current()->read_join_state(stage.until()));
  stage.expect(state && state->horizon >= (*mark)->ballot.counter,
               "a volume that joined knows nothing of what was purged");
  stage.expect(state && is_fenced(*state, ref.key.bucket),
               "a volume that joined knows nothing of deleted buckets");
  return stage.violations;
}

}  // namespace penstock::sim
