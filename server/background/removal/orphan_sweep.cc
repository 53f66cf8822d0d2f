#include "server/background/removal/orphan_sweep.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "penstock/log.h"
#include "penstock/planted.h"
#include "server/background/removal/references.h"

namespace penstock {

void OrphanSweep::Found::add(const FragmentEntry& entry) {
  ++fragments;
  bytes += entry.data_bytes;
  oldest = std::max(oldest, entry.unpinned);
}

void OrphanSweep::Found::take(const FragmentEntry& entry) {
  --fragments;
  bytes -= entry.data_bytes;
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
  std::erase_if(known_, [&local](const auto& entry) { return !local(entry.first); });
  ++passes_;
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
  Known& known = known_[volume];
  Look look{std::move(client), known};
  auto swept = co_await sweep_pages(look, progress, left);
  // Of what was not looked at nothing new is known.
  if (swept && !context_.stops()) {
    std::erase_if(known.notes, [this](const auto& entry) { return entry.second.pass != passes_; });
  }
  co_return swept;
}

Task<> OrphanSweep::sweep_pages(Look& look, Progress& progress, Found& left) {
  std::optional<FragmentId> after;
  Result<> whole;
  while (true) {
    CO_CHECK(co_await look_again(look, left));
    if (!co_await pace_.turn()) co_return Result<>{};
    look.listed = context_.clock.boot();
    CO_TRY(page, co_await look.volume->list_fragments(after, context_.options.page_rows,
                                                      context_.step_deadline()));
    if (page.empty()) co_return whole;
    const std::optional<FragmentId> before = std::exchange(after, page.back().id);
    const std::size_t count = page.size();
    look.notes = false;
    auto examined = co_await examine_all(look, std::move(page), left);
    if (!examined) whole = std::move(examined);
    if (look.notes) {
      const BootTime due = context_.clock.boot() + context_.options.hint_delay;
      look.known.pages.push_back({before, due});
    }
    progress.step(count);
  }
}

// Where that fails the next pass finds the same fragments.
Task<> OrphanSweep::look_again(Look& look, Found& left) {
  auto& pages = look.known.pages;
  while (!pages.empty() && pages.front().due <= context_.clock.boot()) {
    if (!co_await pace_.turn()) co_return Result<>{};
    look.listed = context_.clock.boot();
    CO_TRY(page, co_await look.volume->list_fragments(
                     pages.front().after, context_.options.page_rows, context_.step_deadline()));
    pages.pop_front();
    std::erase_if(page, [&](const FragmentEntry& entry) {
      const auto note = look.known.notes.find(entry.id);
      return note == look.known.notes.end() || !has_waited(note->second.since);
    });
    look.again = true;
    (void)co_await examine_all(look, std::move(page), left);
    look.again = false;
  }
  co_return Result<>{};
}

std::map<FragmentOwner, OrphanSweep::Entries> OrphanSweep::suspects_of(Look& look,
                                                                       Entries page) const {
  std::map<FragmentOwner, Entries> owners;
  for (FragmentEntry& entry : page) {
    const bool pinned = entry.pinned && holds(Rule::sweep_pinned);
    if (pinned || entry.owner.key.empty()) {  // R11 (1)
      look.known.notes.erase(entry.id);
      continue;
    }
    FragmentOwner owner = entry.owner;
    owners[std::move(owner)].push_back(std::move(entry));
  }
  return owners;
}

Task<> OrphanSweep::examine_all(Look& look, Entries page, Found& left) {
  Result<> whole;
  auto owners = suspects_of(look, std::move(page));
  for (auto& [owner, entries] : owners) {
    if (!co_await pace_.turn()) co_return Result<>{};
    auto examined = co_await examine(look, owner, std::move(entries), left);
    if (!examined) whole = std::move(examined);
  }
  co_return whole;
}

std::optional<BootTime> OrphanSweep::noted(const Look& look, const FragmentEntry& entry) const {
  const auto note = look.known.notes.find(entry.id);
  if (note == look.known.notes.end()) return std::nullopt;
  const BootTime since = note->second.since;
  if (entry.unpinned < look.listed - since) return std::nullopt;
  return since;
}

bool OrphanSweep::has_waited(BootTime since) const {
  const bool waited = context_.clock.boot() >= since + context_.options.hint_delay;
  return waited || !holds(Rule::sweep_grace);
}

std::size_t OrphanSweep::notes_count() const {
  std::size_t count = 0;
  for (const auto& [volume, known] : known_) count += known.notes.size();
  return count;
}

// The walk counts what is left, once; a second look has found it counted, or it will be.
void OrphanSweep::wait(Look& look, const FragmentEntry& entry, BootTime since, Found& left) {
  if (!look.again) left.add(entry);
  auto& notes = look.known.notes;
  if (!notes.contains(entry.id) && notes_count() >= limits::kOrphansNotedMax) return;
  Note& note = notes[entry.id];
  note.since = since;
  if (look.again) return;
  note.pass = passes_;
  look.notes = look.notes || since >= look.listed;
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

Task<> OrphanSweep::examine(Look& look, FragmentOwner owner, Entries entries, Found& left) {
  const Deadline deadline = context_.step_deadline();
  std::erase_if(entries, [&](const FragmentEntry& entry) {
    const auto since = noted(look, entry);
    const bool young = since && !has_waited(*since);
    if (young) wait(look, entry, *since, left);
    return young;
  });
  if (entries.empty()) co_return Result<>{};
  std::set<FragmentId> cleared;
  for (const FragmentEntry& entry : entries) cleared.insert(entry.id);
  CO_TRY(orphans,
         co_await find_orphans(look.volume->id(), std::move(owner), std::move(entries), deadline));
  for (const FragmentEntry& orphan : orphans) cleared.erase(orphan.id);
  for (const FragmentId id : cleared) look.known.notes.erase(id);
  const BootTime now = context_.clock.boot();
  std::erase_if(orphans, [&](const FragmentEntry& entry) {
    const BootTime since = noted(look, entry).value_or(now);
    const bool waits = !has_waited(since);
    if (waits) wait(look, entry, since, left);
    return waits;
  });
  co_return co_await remove(look, std::move(orphans), left, deadline);
}

Task<> OrphanSweep::remove(Look& look, Entries condemned, Found& left, Deadline deadline) {
  std::uint64_t removed = 0, bytes = 0;
  for (const FragmentEntry& orphan : condemned) {
    auto gone =
        co_await look.volume->remove_fragment_if(orphan.id, RemovalRule::unpinned, deadline);
    if (!gone && gone.error().code != Errc::busy) {  // busy: pinned again, it is no orphan
      const BootTime since = noted(look, orphan).value_or(context_.clock.boot());
      wait(look, orphan, since, left);
      continue;
    }
    const auto note = look.known.notes.find(orphan.id);
    const bool known = note != look.known.notes.end();
    if (look.again && known && note->second.pass == passes_) left.take(orphan);
    if (known) look.known.notes.erase(note);
    if (!gone) continue;
    ++removed;
    bytes += orphan.data_bytes;
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
