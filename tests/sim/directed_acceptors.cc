// One acceptor, asked directly: what it must refuse, remember or wait for.
#include "server/records/object_record.h"
#include "tests/sim/stage.h"

namespace penstock::sim {
namespace {

const std::string kRowKey = "key";

void put_many(Stage& stage, int count) {
  for (int i = 0; i < count; ++i) {
    stage.ask(0, "PUT", "many" + std::to_string(i), std::string(900, 'm'));
  }
}

}  // namespace

// R5: a prepare that finds an accept of its key in the queue answers what that accept wrote: else
// it would promise over a value that its proposer never sees.
Violations queued_accept_is_awaited(SimClusters& clusters) {
  Stage stage(clusters, 3, 1, kMillisecond);
  const auto client = stage.volume(0).current();
  // The ceiling goes up first, since raising it makes a prepare wait anyway.
  const auto other = stage.accept_of(stage.object("other"), empty_object(), 20 * kSecond);
  (void)stage.wait(client->prepare(prepare_of(*other, 0), stage.until()));
  const auto accept = stage.accept_of(stage.object(kRowKey), empty_object(), 21 * kSecond);
  const auto accepted = stage.start(client->accept(accept, stage.until()));
  const auto promised = stage.start(client->prepare(prepare_of(*accept, 1), stage.until()));
  stage.run_until([&] { return accepted->has_value() && promised->has_value(); });
  const bool both =
      **accepted && (*accepted)->value().accepted && **promised && (*promised)->value().promised;
  stage.expect(both, "an accept and the prepare behind it are refused");
  stage.expect(!both || (*promised)->value().accepted.ballot == accept->ballot,
               "a promise does not tell of the accept before it");
  return stage.violations;
}

// R6: a volume vouches for a ballot from memory only as long as the row has it: else a replica that
// missed a PUT and one that took it would be a majority for the value before. One volume is asked
// here; the run is played by worlds whose gateway and volumes are of one process.
Violations replaced_ballot_is_not_held(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const auto client = stage.volume(0).current();
  const RegisterRef ref = stage.object(kRowKey);
  const auto old = stage.accept_of(ref, empty_object(), 20 * kSecond);
  const auto next = stage.accept_of(ref, empty_object(), 21 * kSecond);
  ReadRequest read;
  read.key = old->key;
  read.round = old->round;
  read.want = ReadWant::ballot;
  for (const auto& accept : {old, next}) {
    stage.expect(stage.wait(client->accept(accept, stage.until())).has_value(),
                 "a value is not accepted");
    stage.expect(client->holds_now(read, accept->ballot), "a volume does not know its ballot");
  }
  stage.expect(!client->holds_now(read, old->ballot), "a volume vouches for a ballot of the past");
  return stage.violations;
}

// A call fails that LevelDB takes lightly: the removal of an old log. The disk may be going.
Violations disk_stops_at_first_failure(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  stage.volume(0).disk().fail(FakeDisk::Call::remove, 1, FakeDisk::Fault::io);
  put_many(stage, 150);
  stage.expect(stage.volume(0).disk().failed_changes() > 0, "no file was to be removed");
  stage.volume(0).crash();
  stage.expect(!stage.volume(0).survived_failure(), "a volume goes on after a failed call");
  return stage.violations;
}

// R12: one epoch stands for one list. Who has another one in mind is refused.
Violations epochs_are_told_apart(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const RegisterRef ref = stage.object(kRowKey);
  auto accept = stage.accept_of(ref, empty_object(), 0);
  accept->round.digest ^= 1;
  const auto taken = stage.wait(stage.volume(0).current()->accept(accept, stage.until()));
  stage.expect(!taken, "a volume accepts from who has another list in mind");
  std::vector<GroupEpoch> epochs;
  for (std::uint32_t group = 0; group < stage.map().groups.size(); ++group) {
    auto other = stage.map().groups[group];
    std::swap(other.replicas.front(), other.replicas.back());
    epochs.push_back(GroupEpoch{GroupId{group}, other.epoch, group_digest(other)});
  }
  stage.expect(!stage.wait(stage.volume(0).set_epochs(std::move(epochs))),
               "a volume takes another list for an epoch that it knows");
  return stage.violations;
}

// R12: an epoch is synced before the first answer under it.
Violations epoch_outlives_restart(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  std::vector<GroupEpoch> epochs;
  for (std::uint32_t group = 0; group < stage.map().groups.size(); ++group) {
    auto next = stage.map().groups[group];
    ++next.epoch.value;
    epochs.push_back(GroupEpoch{GroupId{group}, next.epoch, group_digest(next)});
  }
  const auto set = stage.wait(stage.volume(0).set_epochs(std::move(epochs)));
  stage.expect(set.has_value(), "a volume does not take the next epoch");
  stage.volume(0).kill();
  stage.expect(stage.volume(0).start().has_value(), "a volume does not start");
  stage.run_for(kSecond);
  const bool taken = stage.inject(0, stage.object(kRowKey), empty_object(), 20 * kSecond);
  stage.expect(!taken, "a restart forgets an epoch");
  return stage.violations;
}

// A part may arrive where the upload's own row has not: whether it is open is not known there.
Violations part_of_unknown_upload(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  RegisterRef ref = stage.object(kRowKey);
  ref.key.kind = RowKind::part;
  ref.key.part = 1;
  ref.key.upload_id = std::string(32, 'a');
  PartInfo part;
  part.number = 1;
  stage.expect(!stage.inject(0, ref, to_value(part), 0), "a part of an unknown upload is taken");
  return stage.violations;
}

// The rounds that settle a part pass though its upload has ended: else it would block changes of
// the group, and its purge, for ever.
Violations part_of_ended_upload_is_settled(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  using Pairs = Stage::Pairs;
  const auto created = stage.ask(0, "POST", kRowKey, "", {}, Pairs{{"uploads", ""}});
  const std::string id = xml_element(created.body, "UploadId");
  stage.ask(0, "PUT", kRowKey, std::string(5'000, 'p'), {},
            Pairs{{"partNumber", "1"}, {"uploadId", id}});
  const auto ended = stage.ask(0, "DELETE", kRowKey, "", {}, Pairs{{"uploadId", id}});
  stage.expect(ended.status == 204, "an upload is not aborted: " + ended.body);
  RegisterRef ref = stage.object(kRowKey);
  ref.key.kind = RowKind::part;
  ref.key.part = 1;
  ref.key.upload_id = id;
  const auto settled = stage.wait(
      stage.gateway(0).proposer().write_back(ref, WriteBack::always, true, stage.until()));
  stage.expect(settled && settled->kind() == ValueKind::part,
               "a part of an ended upload cannot be settled");
  return stage.violations;
}

}  // namespace penstock::sim
