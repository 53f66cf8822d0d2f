#include "server/background/orphan_sweep.h"

#include <map>

#include "penstock/log.h"
#include "penstock/planted.h"
#include "server/background/references.h"

namespace penstock {

Task<> OrphanSweep::pass() {
  std::uint64_t total = 0;
  const std::vector<VolumeId> volumes = context_.local_volumes();
  for (const auto& client : context_.membership.volumes()) {
    const bool local = std::find(volumes.begin(), volumes.end(), client->id()) != volumes.end();
    if (local) total += client->status().fragment_count;
  }
  Progress progress(context_, "fragments", total);
  Found left;
  Result<> whole;
  for (const VolumeId volume : volumes) {
    auto swept = co_await sweep_volume(volume, progress, left);
    if (!swept) whole = std::move(swept);
    if (context_.stops()) co_return Result<>{};
  }
  const bool complete = whole.has_value();
  const WallTime now = context_.clock.wall();
  context_.board->change([&](BackgroundStatus& status) {
    status.orphan_fragments = left.fragments;
    status.orphan_bytes = left.bytes;
    status.oldest_orphan = left.oldest;
    if (!complete) return;
    status.last_sweep = now;
    ++status.sweeps;
  });
  co_return whole;
}

Task<> OrphanSweep::sweep_volume(VolumeId volume, Progress& progress, Found& left) {
  const auto client = context_.membership.volume(volume);
  if (client == nullptr) co_return fail(Errc::unavailable, "no such volume here");
  std::optional<FragmentId> after;
  Result<> whole;
  while (true) {
    if (!co_await pace_.turn()) co_return Result<>{};
    CO_TRY(page, co_await client->list_fragments(after, context_.options.page_rows,
                                                 context_.step_deadline()));
    std::map<FragmentOwner, Entries> owners;
    for (FragmentEntry& entry : page) {
      after = entry.id;
      const bool pinned = entry.pinned && holds(Rule::sweep_pinned);
      if (pinned || entry.owner.key.empty()) continue;  // R11 (1)
      FragmentOwner owner = entry.owner;
      owners[std::move(owner)].push_back(std::move(entry));
    }
    for (auto& [owner, entries] : owners) {
      if (!co_await pace_.turn()) co_return Result<>{};
      auto found = co_await examine(client, owner, std::move(entries));
      if (!found) {
        whole = found.error();
        continue;
      }
      left.fragments += found->fragments;
      left.bytes += found->bytes;
      left.oldest = std::max(left.oldest, found->oldest);
    }
    progress.step(page.size());
    if (page.size() < context_.options.page_rows) co_return whole;
  }
}

Task<OrphanSweep::Entries> OrphanSweep::without_references(VolumeId volume, Snapshot object,
                                                           Entries entries, Deadline deadline) {
  CO_TRY(references, co_await references_of(context_, std::move(object), deadline));
  std::erase_if(entries, [&](const FragmentEntry& entry) {
    return references.contains(Reference{volume, entry.id});
  });
  co_return entries;
}

Task<OrphanSweep::Found> OrphanSweep::examine(std::shared_ptr<VolumeClient> volume,
                                              FragmentOwner owner, Entries entries) {
  const Deadline deadline = context_.step_deadline();
  Found left;
  CO_TRY(ended, co_await upload_has_ended(context_, owner, deadline));
  if (!ended && holds(Rule::sweep_upload)) co_return left;
  const RegisterRef ref = object_of(owner);
  CO_TRY(seen, co_await context_.proposer.read(ref, ReadWant::value, deadline));
  CO_TRY(suspects, co_await without_references(volume->id(), std::move(seen), std::move(entries),
                                               deadline));
  if (suspects.empty()) co_return left;
  // R11 (2): after this round nothing that is under way can come to name them; who still wants to
  // must prepare again, finds its lease stale and pins first (R10).
  Entries orphans = std::move(suspects);
  if (holds(Rule::sweep_round)) {
    const bool complete = holds(Rule::sweep_accept);
    CO_TRY(settled, co_await context_.proposer.settle(ref, complete, true, deadline));
    CO_TRY(condemned, co_await without_references(volume->id(), std::move(settled),
                                                  std::move(orphans), deadline));
    orphans = std::move(condemned);
  }
  std::uint64_t removed = 0, bytes = 0;
  for (const FragmentEntry& orphan : orphans) {
    auto gone = co_await volume->remove_fragment_if(orphan.id, RemovalRule::unpinned, deadline);
    if (gone) {
      ++removed;
      bytes += orphan.data_bytes;
    } else if (gone.error().code != Errc::busy) {  // busy: pinned again, it is no orphan
      ++left.fragments;
      left.bytes += orphan.data_bytes;
      left.oldest = std::max(left.oldest, orphan.unpinned);
    }
  }
  context_.board->change([removed, bytes](BackgroundStatus& status) {
    status.fragments_removed_by_sweeps += removed;
    status.bytes_removed_by_sweeps += bytes;
  });
  if (removed > 0) {
    log_event(LogLevel::debug, "orphans_removed",
              {{"volume", std::to_string(volume->id().value)},
               {"count", std::to_string(removed)},
               {"bytes", std::to_string(bytes)}});
  }
  co_return left;
}

}  // namespace penstock
