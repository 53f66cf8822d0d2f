// What a restart, or a table that is full, may not make a volume forget.
#include "server/volume/acceptor/register_row.h"
#include "tests/sim/blob_stage.h"
#include "tests/sim/graces.h"

namespace penstock::sim {
namespace {

const std::string kHeld = "key";

void restart(Stage& stage, std::size_t volume) {
  stage.volume(volume).kill();
  stage.expect(stage.volume(volume).start().has_value(), "a volume does not start");
}

// Whatever the rule says of it, each volume is asked to remove each fragment of the blob.
void remove_all(Stage& stage, const BlobRef& blob, RemovalRule rule) {
  for (std::size_t i = 0; i < stage.volumes(); ++i) {
    const auto client = stage.volume(i).current();
    for (std::uint32_t slot = 0; slot < blob.locations.size(); ++slot) {
      (void)stage.wait(client->remove_fragment_if(blob.fragment(slot), rule, stage.until()));
    }
  }
}

// Keys whose promises an acceptor keeps in one place: it has 1,024 of them, this fits 4,096, too.
std::vector<RegisterRef> keys_of_one_slot(Stage& stage, std::size_t count) {
  std::vector<RegisterRef> keys;
  const auto slot = [](const RegisterRef& ref) { return RegisterKeyHash{}(ref.key) % 4096; };
  for (int i = 0; keys.size() < count; ++i) {
    RegisterRef ref = stage.object("promised" + std::to_string(i));
    if (keys.empty() || slot(ref) == slot(keys.front())) keys.push_back(std::move(ref));
  }
  return keys;
}

}  // namespace

// R4: more keys are promised than an acceptor remembers one by one. The promise that made room is
// kept all the same: an accept below it would be one that the promised round does not know of.
Violations promise_outlives_eviction(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const auto client = stage.volume(0).current();
  const auto keys = keys_of_one_slot(stage, 40);
  const auto late = stage.accept_of(keys.front(), empty_object(), 20 * kSecond);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto request = prepare_of(*late, static_cast<SimMicros>(i) + 1);
    request->key = keys[i].key;
    request->round = stage.round_of(keys[i]);
    const auto reply = stage.wait(client->prepare(request, stage.until()));
    stage.expect(reply && reply->promised, "a ballot is not promised");
  }
  const auto reply = stage.wait(client->accept(late, stage.until()));
  stage.expect(!reply || !reply->accepted, "an acceptor forgot a promise for want of room");
  return stage.violations;
}

// R9: the horizon of a purge is on the disk with it. Were it in memory alone, a volume that joins
// after a restart would take over none, and let in what was purged.
Violations horizon_outlives_restart(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const RegisterRef ref = stage.object(kHeld);
  stage.ask(0, "PUT", kHeld, std::string(40, 'h'));
  stage.ask(0, "DELETE", kHeld);
  Proposer& proposer = stage.gateway(0).proposer();
  const auto mark = stage.wait(proposer.mark_tombstone(ref, stage.until()));
  stage.expect(mark && *mark, "a tombstone is not marked");
  if (!mark || !*mark) return stage.violations;
  const auto dropped = stage.wait(proposer.drop_tombstone(ref, **mark, stage.until()));
  stage.expect(dropped && *dropped == DropEnd::all_answered, "a tombstone is not dropped");
  for (std::size_t i = 0; i < 3; ++i) restart(stage, i);
  stage.run_for(kSecond);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto state = stage.wait(stage.volume(i).current()->read_join_state(stage.until()));
    stage.expect(state && state->horizon >= (*mark)->ballot.counter,
                 "a restart forgets what was purged");
  }
  return stage.violations;
}

// R11: leases are in memory alone, so after a restart everything counts as pinned for a while,
// however long ago it was written: its writer does not know yet that its lease is forgotten.
Violations leases_outlive_restart(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const auto stored = store_blob(stage, kHeld);
  if (!stored) return stage.violations;
  stage.run_for(graces::kLease.count() - 2 * kSecond);
  for (std::size_t i = 0; i < 3; ++i) restart(stage, i);
  stage.run_for(3 * kSecond);  // of the lease that came with the write nothing is left
  remove_all(stage, stored->blob, RemovalRule::unpinned);
  stage.expect(fragments_there(stage, stored->blob) == 3,
               "a fragment goes that its writer had pinned before a restart");
  return stage.violations;
}

// R10: what a start grants is short, and a writer that holds on to a lease of before may not name
// what has gone since: its connections broke with the holders.
Violations lease_ends_with_its_connection(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  auto stored = store_blob(stage, kHeld);
  if (!stored) return stage.violations;
  for (std::size_t i = 0; i < 3; ++i) restart(stage, i);
  // The writer's clock says that its lease is fresh.
  stage.run_for(graces::kLeaseFresh.count() - kSecond);
  remove_all(stage, stored->blob, RemovalRule::unpinned);
  stage.expect(fragments_there(stage, stored->blob) == 0, "restarts keep an orphan for ever");
  WriterLease lease(*stored->writer, stored->blob);
  Objects& objects = stage.gateway(0).background_context().objects;
  Condition none;
  const auto put = stage.wait(
      objects.put(stage.bucket(), kHeld, stored->record(), nullptr, none, stage.until(), &lease));
  stage.expect(!put.has_value(), "an object names fragments that are gone");
  stage.expect(stage.ask(0, "GET", kHeld).status == 404, "an object has lost its body");
  return stage.violations;
}

// The same of those who read what an update has freed.
Violations readers_outlive_restart(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  stage.stop_background();
  const auto stored = store_blob(stage, kHeld);
  if (!stored) return stage.violations;
  stage.run_for(10 * kSecond);
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<FragmentId> ids;
    for (std::uint32_t slot = 0; slot < 3; ++slot) ids.push_back(stored->blob.fragment(slot));
    (void)stage.wait(stage.volume(i).current()->pin_for_reader(std::move(ids), stage.until()));
    restart(stage, i);
  }
  remove_all(stage, stored->blob, RemovalRule::unread);
  stage.expect(fragments_there(stage, stored->blob) == 3,
               "a fragment goes that a reader had pinned before a restart");
  return stage.violations;
}

// R11: a pin comes while a removal is under way. Either the removal sees it, or who pins is told
// that the fragment is gone: a record that names it would miss it.
Violations pin_meets_removal(SimClusters& clusters) {
  constexpr int kRounds = 60;
  Stage stage(clusters, 3, 1, 3 * kMillisecond);
  stage.stop_background();
  std::vector<StoredBlob> blobs;
  for (int round = 0; round < kRounds; ++round) {
    auto stored = store_blob(stage, kHeld);
    if (!stored) return stage.violations;
    blobs.push_back(std::move(*stored));
  }
  stage.run_for(30 * kSecond);  // no lease is left
  for (int round = 0; round < kRounds; ++round) {
    const BlobRef& blob = blobs[static_cast<std::size_t>(round)].blob;
    const FragmentId id = blob.fragment(0);
    for (std::size_t i = 0; i < 3; ++i) {
      if (stage.volume(i).id() != blob.locations[0].volume) continue;
      const auto client = stage.volume(i).current();
      const auto removed =
          stage.start(client->remove_fragment_if(id, RemovalRule::unpinned, stage.until()));
      stage.run_for(round * 200);
      const auto missing = stage.wait(client->pin(std::vector<FragmentId>(1, id), stage.until()));
      stage.run_until([&] { return removed->has_value(); });
      stage.run_for(20 * kMillisecond);
      const bool pinned = missing && missing->empty();
      stage.expect(!pinned || fragments_there(stage, blob) == 3,
                   "a fragment was pinned and is gone");
    }
  }
  return stage.violations;
}

}  // namespace penstock::sim
