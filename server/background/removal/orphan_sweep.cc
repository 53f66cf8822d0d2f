#include "server/background/removal/orphan_sweep.h"

#include <algorithm>
#include <map>

#include "penstock/log.h"
#include "penstock/planted.h"
#include "server/background/removal/references.h"

namespace penstock {

void OrphanSweep::Found::add(const FragmentEntry& entry) {
  ++fragments;
  bytes += entry.data_bytes;
  oldest = std::max(oldest, entry.unpinned);
}

Task<> OrphanSweep::pass() {
  std::uint64_t total = 0;
  const std::vector<VolumeId> volumes = context_.local_volumes();
  const auto local = [&volumes](VolumeId id) {
    return std::find(volumes.begin(), volumes.end(), id) != volumes.end();
  };
  for (const auto& client : context_.membership.volumes()) {
    if (local(client->id())) total += client->status().fragment_count;
  }
  std::erase_if(notes_, [&local](const auto& entry) { return !local(entry.first); });
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
  auto client = context_.membership.volume(volume);
  if (client == nullptr) co_return fail(Errc::unavailable, "no such volume here");
  Notes& notes = notes_[volume];
  Look look{std::move(client), notes};
  auto swept = co_await sweep_pages(look, progress, left);
  // Of what was not looked at nothing new is known.
  if (!swept || context_.stops()) look.again.merge(notes);
  notes = std::move(look.again);
  co_return swept;
}

Task<> OrphanSweep::sweep_pages(Look& look, Progress& progress, Found& left) {
  std::optional<FragmentId> after;
  Result<> whole;
  while (true) {
    if (!co_await pace_.turn()) co_return Result<>{};
    look.listed = context_.clock.boot();
    CO_TRY(page, co_await look.volume->list_fragments(after, context_.options.page_rows,
                                                      context_.step_deadline()));
    if (page.empty()) co_return whole;
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
      auto found = co_await examine(look, owner, std::move(entries));
      if (!found) {
        whole = found.error();
        continue;
      }
      left.fragments += found->fragments;
      left.bytes += found->bytes;
      left.oldest = std::max(left.oldest, found->oldest);
    }
    progress.step(page.size());
  }
}

std::optional<BootTime> OrphanSweep::noted(const Look& look, const FragmentEntry& entry) const {
  const auto note = look.notes.find(entry.id);
  if (note == look.notes.end() || entry.unpinned < look.listed - note->second) return std::nullopt;
  return note->second;
}

bool OrphanSweep::has_waited(BootTime since) const {
  const bool waited = context_.clock.boot() >= since + context_.options.hint_delay;
  return waited || !holds(Rule::sweep_grace);
}

std::size_t OrphanSweep::notes_count() const {
  std::size_t count = 0;
  for (const auto& [volume, notes] : notes_) count += notes.size();
  return count;
}

void OrphanSweep::wait(Look& look, const FragmentEntry& entry, BootTime since, Found& left) {
  left.add(entry);
  look.notes.erase(entry.id);
  if (notes_count() + look.again.size() >= limits::kOrphansNotedMax) return;
  look.again[entry.id] = since;
}

Task<OrphanSweep::Entries> OrphanSweep::without_references(VolumeId volume, Snapshot object,
                                                           Entries entries, Deadline deadline) {
  CO_TRY(references, co_await references_of(context_, std::move(object), deadline));
  std::erase_if(entries, [&](const FragmentEntry& entry) {
    return references.contains(Reference{volume, entry.id});
  });
  co_return entries;
}

Task<OrphanSweep::Entries> OrphanSweep::find_orphans(VolumeId volume, FragmentOwner owner,
                                                     Entries entries, Deadline deadline) {
  const bool upload_first = holds(Rule::sweep_upload_first);
  if (upload_first) {
    CO_TRY(ended, co_await upload_has_ended(context_, owner, deadline));
    if (!ended && holds(Rule::sweep_upload)) co_return Entries();
  }
  const RegisterRef ref = object_of(owner);
  CO_TRY(seen, co_await context_.proposer.read(ref, ReadWant::value, deadline));
  CO_TRY(orphans,
         co_await without_references(volume, std::move(seen), std::move(entries), deadline));
  if (orphans.empty() || !holds(Rule::sweep_round)) co_return orphans;
  // R11 (2): after this round nothing that is under way can come to name them; who still wants to
  // must prepare again, finds its lease stale and pins first (R10).
  const auto how = holds(Rule::sweep_accept) ? WriteBack::complete : WriteBack::if_needed;
  CO_TRY(settled, co_await context_.proposer.write_back(ref, how, true, deadline));
  CO_TRY(condemned,
         co_await without_references(volume, std::move(settled), std::move(orphans), deadline));
  if (!upload_first) {
    CO_TRY(ended, co_await upload_has_ended(context_, owner, deadline));
    if (!ended) co_return Entries();
  }
  co_return condemned;
}

Task<OrphanSweep::Found> OrphanSweep::examine(Look& look, FragmentOwner owner, Entries entries) {
  const Deadline deadline = context_.step_deadline();
  Found left;
  std::erase_if(entries, [&](const FragmentEntry& entry) {
    const auto since = noted(look, entry);
    const bool young = since && !has_waited(*since);
    if (young) wait(look, entry, *since, left);
    return young;
  });
  if (entries.empty()) co_return left;
  CO_TRY(orphans,
         co_await find_orphans(look.volume->id(), std::move(owner), std::move(entries), deadline));
  const BootTime now = context_.clock.boot();
  std::erase_if(orphans, [&](const FragmentEntry& entry) {
    const BootTime since = noted(look, entry).value_or(now);
    const bool waits = !has_waited(since);
    if (waits) wait(look, entry, since, left);
    return waits;
  });
  CO_CHECK(co_await remove(look, std::move(orphans), left, deadline));
  co_return left;
}

Task<> OrphanSweep::remove(Look& look, Entries condemned, Found& left, Deadline deadline) {
  std::uint64_t removed = 0, bytes = 0;
  for (const FragmentEntry& orphan : condemned) {
    auto gone =
        co_await look.volume->remove_fragment_if(orphan.id, RemovalRule::unpinned, deadline);
    if (gone) {
      ++removed;
      bytes += orphan.data_bytes;
    } else if (gone.error().code != Errc::busy) {  // busy: pinned again, it is no orphan
      const BootTime since = noted(look, orphan).value_or(context_.clock.boot());
      wait(look, orphan, since, left);
    }
  }
  context_.board->change([removed, bytes](BackgroundStatus& status) {
    status.fragments_removed_by_sweeps += removed;
    status.bytes_removed_by_sweeps += bytes;
  });
  if (removed > 0) {
    log_event(LogLevel::debug, "orphans_removed",
              {{"volume", std::to_string(look.volume->id().value)},
               {"count", std::to_string(removed)},
               {"bytes", std::to_string(bytes)}});
  }
  co_return Result<>{};
}

}  // namespace penstock
