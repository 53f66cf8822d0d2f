// Purged tombstones; answers that lie at a minority.
#include "server/records/object_record.h"
#include "tests/sim/stage.h"

namespace penstock::sim {
namespace {
const std::string kPurged = "key";
const std::string kPurgedBody(40, 'a');

// A PUT that is accepted, seen and deleted while its gateway hears nothing.
Stage::Later put_and_delete_unheard(Stage& stage) {
  for (int i = 0; i < 2; ++i) stage.ask(i, "GET", kPurged);
  const auto& wires = stage.gateway(0).wires();
  for (const auto& wire : wires) wire->slow_answers = 40 * kMillisecond;
  const auto put = stage.begin(0, "PUT", kPurged, kPurgedBody);
  stage.run_for(30 * kMillisecond);  // its promises are on the way; no answer follows them
  for (const auto& wire : wires) wire->cut_answers = true;
  stage.run_for(30 * kMillisecond);
  const bool seen = stage.ask(1, "GET", kPurged).body == kPurgedBody;
  stage.expect(seen, "the schedule misses the accept");
  const auto deleted = stage.ask(1, "DELETE", kPurged);
  stage.expect(deleted.status == 204, "a DELETE fails: " + deleted.body);
  return put;
}

// The gateway hears again, and learns that it has been applied.
void expect_not_repeated(Stage& stage, const Stage::Later& put) {
  stage.expect(!put->has_value(), "the schedule is too late for the PUT");
  for (const auto& wire : stage.gateway(0).wires()) {
    wire->cut_answers = false;
    wire->slow_answers = 0;
  }
  stage.run_until([&] { return put->has_value(); });
  const auto got = stage.ask(1, "GET", kPurged);
  stage.expect(got.status == 404, "a PUT that was seen and deleted came back");
}

}  // namespace

// R9: one replica missed the DELETE and still has the object. Were the tombstones of the others
// purged, it would be the highest that is found.
Violations tombstone_of_a_majority_stays(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  const RegisterRef ref = stage.object(kPurged);
  const auto replicas = stage.replicas(kPurged);
  for (int i = 0; i < 2; ++i) stage.ask(i, "PUT", kPurged, kPurgedBody);
  stage.run_for(kSecond);
  for (int i = 0; i < 2; ++i) stage.cut(i, replicas[2], true);
  const auto deleted = stage.ask(0, "DELETE", kPurged);
  stage.expect(deleted.status == 204, "a DELETE fails: " + deleted.body);
  Proposer& proposer = stage.gateway(0).proposer();
  const auto mark = stage.wait(proposer.mark_tombstone(ref, stage.until()));
  if (mark && *mark) (void)stage.wait(proposer.drop_tombstone(ref, **mark, stage.until()));
  stage.cut(1, replicas[2], false);
  stage.volume(replicas[0]).crash();
  const auto got = stage.ask(1, "GET", kPurged);
  stage.expect(got.status != 200, "a deleted object came back");
  return stage.violations;
}

// R9: a purge belongs to the list that acked its mark, and ends when all have answered its drop.
Violations purge_ends_with_its_epoch(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const RegisterRef ref = stage.object(kPurged);
  stage.ask(0, "PUT", kPurged, kPurgedBody);
  stage.ask(0, "DELETE", kPurged);
  Proposer& proposer = stage.gateway(0).proposer();
  const auto found = stage.wait(proposer.mark_tombstone(ref, stage.until()));
  stage.expect(found && *found, "a tombstone is not marked");
  if (!found || !*found) return stage.violations;
  TombstoneMark of_another = **found;
  --of_another.epoch.value;
  const auto late = stage.wait(proposer.drop_tombstone(ref, of_another, stage.until()));
  stage.expect(late && *late == DropEnd::void_mark && !stage.row(0, kPurged).ballot.is_zero(),
               "a purge goes on over a change of its group");
  DropRequest drop;
  drop.key = ref.key;
  drop.ballot = (*found)->ballot;
  drop.round = stage.round_of(ref);
  --drop.round.epoch.value;
  auto old_drop = std::make_shared<const DropRequest>(drop);
  (void)stage.wait(stage.volume(0).current()->drop(old_drop, stage.until()));
  stage.expect(!stage.row(0, kPurged).ballot.is_zero(), "a drop of another epoch was honoured");
  const auto replicas = stage.replicas(kPurged);
  stage.cut(0, replicas[2], true);
  const auto part = stage.wait(proposer.drop_tombstone(ref, **found, stage.until()));
  stage.expect(part && *part == DropEnd::ask_again,
               "a purge ends before all replicas have answered");
  return stage.violations;
}

// R8: a PUT of an absent key is seen, deleted and purged while its gateway hears nothing. Absent as
// the key is again, it may not be written once more.
Violations purged_put_is_not_repeated(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  const auto put = put_and_delete_unheard(stage);
  Proposer& proposer = stage.gateway(1).proposer();
  const RegisterRef ref = stage.object(kPurged);
  const auto mark = stage.wait(proposer.mark_tombstone(ref, stage.until()));
  stage.expect(mark && *mark, "a tombstone is not marked");
  if (!mark || !*mark) return stage.violations;
  const auto dropped = stage.wait(proposer.drop_tombstone(ref, **mark, stage.until()));
  stage.expect(dropped && *dropped == DropEnd::all_answered, "a tombstone is not dropped");
  expect_not_repeated(stage, put);
  return stage.violations;
}

// R9: the round that marks a tombstone keeps its value, which tells of updates before it. A PUT
// was seen and deleted while its gateway hears nothing; only the tombstone says it was applied.
Violations marked_tombstone_keeps_its_chain(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  stage.stop_background();
  const auto put = put_and_delete_unheard(stage);
  Proposer& proposer = stage.gateway(1).proposer();
  const auto mark = stage.wait(proposer.mark_tombstone(stage.object(kPurged), stage.until()));
  stage.expect(mark && *mark, "a tombstone is not marked");
  expect_not_repeated(stage, put);
  return stage.violations;
}

// R6: what a read has sent again counts when a majority has it, not before.
Violations half_sent_again_is_no_answer(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  const auto replicas = stage.replicas(kPurged);
  for (int i = 0; i < 2; ++i) stage.ask(i, "GET", "other");
  const bool there = stage.inject(replicas[0], stage.object(kPurged), empty_object(), 0);
  stage.expect(there, "a value is not accepted");
  stage.cut(0, replicas[2], true);
  const auto& wires = stage.gateway(0).wires();
  for (const auto& wire : wires) wire->slow_answers = 10 * kMillisecond;
  const auto read = stage.begin(0, "GET", kPurged);
  stage.run_for(2 * kMillisecond);  // its questions have arrived, the answers are on the way
  wires[replicas[1]]->cut_requests = true;
  stage.run_until([&] { return read->has_value(); });
  stage.volume(replicas[0]).crash();
  const auto later = stage.ask(1, "GET", kPurged);
  stage.expect(!read->has_value() || (*read)->status != 200 || later.status == 200,
               "a key was read that the next read does not find");
  return stage.violations;
}

}  // namespace penstock::sim
