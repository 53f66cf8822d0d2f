#include "tests/sim/leftovers.h"

#include <algorithm>

#include "server/background/removal/references.h"
#include "server/membership/replica_set.h"
#include "server/volume/fragments/fragment_format.h"

namespace penstock::sim {
namespace {

struct Held {
  std::map<FragmentOwner, References> by_owner;
  References all;
};

Task<> list_fragments(Volume& volume, Held& held) {
  std::optional<FragmentId> after;
  while (true) {
    CO_TRY(entries, co_await volume.fragments().list(after, limits::kFragmentListMax));
    for (FragmentEntry& entry : entries) {
      const Reference reference{volume.id(), entry.id};
      after = entry.id;
      held.all.insert(reference);
      held.by_owner[std::move(entry.owner)].insert(reference);
    }
    if (entries.empty()) co_return Result<>{};
  }
}

// Purging a tombstone takes every replica.
bool can_be_purged(const ClusterMap& map, const RegisterEntry& row,
                   const std::set<VolumeId>& well) {
  const auto share = group_of_key(map, row.key.bucket, row.partitions, row.key.key);
  const auto replicas = replicas_of(map, share.group);
  return replicas && std::all_of(replicas->volumes.begin(), replicas->volumes.end(),
                                 [&](VolumeId id) { return well.contains(id); });
}

Task<> list_tombstones(Volume& volume, const ClusterMap& map, const std::set<VolumeId>& well,
                       Leftovers& left, Deadline deadline) {
  for (const RowKind kind : {RowKind::object, RowKind::upload, RowKind::part}) {
    RegisterListRequest request;
    request.kind = kind;
    request.only = ValueKind::tombstone;
    CO_TRY(found, co_await volume.list_registers(std::move(request), deadline));
    for (const RegisterEntry& row : found.rows) {
      if (!can_be_purged(map, row, well)) continue;
      left.waiting.push_back("a tombstone of " + std::string(1, static_cast<char>(kind)) + " " +
                             row.key.key + " is left on volume " +
                             std::to_string(volume.id().value));
    }
  }
  co_return Result<>{};
}

Task<> list_rows(Volume& volume, Leftovers& left, Deadline deadline) {
  HintListRequest hints;
  hints.due_until = WallTime::max();
  CO_TRY(found, co_await volume.list_hints(std::move(hints), deadline));
  for (const StoredHint& hint : found.hints) {
    left.waiting.push_back("a hint of key " + hint.key + " is left");
  }
  RegisterListRequest uploads;
  CO_TRY(rows, co_await volume.list_registers(std::move(uploads), deadline));
  for (const RegisterEntry& row : rows.rows) {
    if (row.kind == ValueKind::tombstone) continue;
    left.waiting.push_back("an upload of key " + row.key.key + " is left in state " +
                           std::to_string(static_cast<int>(row.kind)));
  }
  co_return Result<>{};
}

Task<> check_owner(BackgroundContext& context, FragmentOwner owner, const Held& held,
                   const std::set<VolumeId>& well, Leftovers& left) {
  const Deadline deadline = context.step_deadline();
  const RegisterRef ref = object_of(owner);
  CO_TRY(object, co_await context.proposer.read(ref, ReadWant::value, deadline));
  CO_TRY(named, co_await references_of(context, std::move(object), deadline));
  for (const auto& [volume, fragment] : named) {
    if (!well.contains(volume) || held.all.contains({volume, fragment})) continue;
    left.missing.push_back("key " + owner.key + " names fragment " + to_string(fragment) +
                           ", which its volume does not hold");
  }
  const auto mine = held.by_owner.find(owner);
  if (mine == held.by_owner.end()) co_return Result<>{};
  for (const Reference& reference : mine->second) {
    if (named.contains(reference)) continue;
    left.waiting.push_back("fragment " + to_string(reference.second) + " of key " + owner.key +
                           (owner.upload_id.empty() ? "" : ", upload " + owner.upload_id) +
                           " on volume " + std::to_string(reference.first.value) + " is an orphan");
  }
  co_return Result<>{};
}

}  // namespace

Awaitable<Leftovers> find_leftovers(BackgroundContext& context,
                                    std::vector<std::shared_ptr<SimVolume>> volumes,
                                    std::shared_ptr<const Bucket> bucket,
                                    std::vector<std::string> keys) {
  Leftovers left;
  Held held;
  std::set<VolumeId> well;
  for (const auto& host : volumes) {
    if (host->opened() && !host->damaged()) well.insert(host->id());
  }
  const auto map = context.membership.map();
  for (const auto& host : volumes) {
    const auto volume = host->opened();
    if (!volume || host->damaged()) continue;
    const auto listed = co_await list_fragments(*volume, held);
    const Deadline soon = host->clock().boot() + Duration(limits::kOperationDeadline);
    const auto rows = co_await list_rows(*volume, left, soon);
    const auto tombstones = co_await list_tombstones(*volume, *map, well, left, soon);
    left.told = left.told && listed && rows && tombstones;
  }
  std::set<FragmentOwner> owners;
  for (const auto& [owner, fragments] : held.by_owner) owners.insert(owner);
  for (const std::string& key : keys) {
    if (bucket) owners.insert(Index::owner(*bucket, key));
  }
  for (const FragmentOwner& owner : owners) {
    const auto checked = co_await check_owner(context, owner, held, well, left);
    left.told = left.told && checked;
  }
  co_return left;
}

}  // namespace penstock::sim
