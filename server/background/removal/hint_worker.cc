#include "server/background/removal/hint_worker.h"

#include <algorithm>

#include "penstock/fan_out.h"
#include "penstock/planted.h"
#include "server/blobs/blob_reader.h"
#include "server/membership/replica_set.h"

namespace penstock {
namespace {

constexpr std::size_t kSideBySide = 16;  // hints worked off at once: their syncs are shared

FragmentOwner owner_of(const StoredHint& hint) {
  return {hint.bucket, hint.partitions, hint.key, hint.upload_id};
}

Result<ReplicaSet> replicas_of_hint(const BackgroundContext& context, const StoredHint& hint) {
  const auto map = context.membership.map();
  return replicas_of(*map, group_of_key(*map, hint.bucket, hint.partitions, hint.key).group);
}

bool names_any(const References& references, const BlobRef& blob) {
  References own;
  add_references(blob, own);
  return std::any_of(own.begin(), own.end(), [&references](const Reference& reference) {
    return references.contains(reference);
  });
}

bool in_map(const ClusterMap& map, VolumeId volume) {
  return std::any_of(map.volumes.begin(), map.volumes.end(),
                     [volume](const MapVolume& entry) { return entry.id == volume; });
}

}  // namespace

Task<> HintWorker::pass() {
  std::uint64_t waiting = 0;
  Progress progress(context_, "hints", 0);
  const std::vector<VolumeId> volumes = context_.local_volumes();
  for (const VolumeId volume : volumes) {
    if (context_.stops()) break;
    // A volume that does not answer is asked again in the next pass.
    (void)co_await work_volume(volume, progress, waiting);
  }
  context_.board->change([waiting](BackgroundStatus& status) { status.hints_waiting = waiting; });
  const BootTime now = context_.clock.boot();
  std::erase_if(retries_, [&](const auto& entry) {
    return entry.second.next + context_.options.hint_give_up < now;
  });
  co_return Result<>{};
}

Task<> HintWorker::work_volume(VolumeId volume, Progress& progress, std::uint64_t& waiting) {
  const auto client = context_.membership.volume(volume);
  if (client == nullptr) co_return fail(Errc::unavailable, "no such volume here");
  const auto executor = co_await boost::asio::this_coro::executor;
  HintListRequest request;
  request.rows_max = context_.options.page_rows;
  request.due_until = context_.clock.wall();
  request.count = true;
  while (true) {
    CO_TRY(page, co_await client->list_hints(request, context_.step_deadline()));
    if (request.count) waiting += page.count;
    request.count = false;
    Hints mine;
    for (StoredHint& hint : page.hints) {
      request.after = hint.name;
      if (takes(volume, hint)) mine.push_back(std::move(hint));
    }
    for (std::size_t first = 0; first < mine.size(); first += kSideBySide) {
      FanOut<void> works;
      const std::size_t last = std::min(first + kSideBySide, mine.size());
      for (std::size_t i = first; i < last; ++i) {
        if (!co_await pace_.turn()) break;
        works.start(executor, work_off(volume, std::move(mine[i])));
      }
      co_await works.wait_all();
      progress.step(last - first);
      if (context_.stops()) co_return Result<>{};
    }
    if (page.hints.empty()) co_return Result<>{};
  }
}

bool HintWorker::takes(VolumeId volume, const StoredHint& hint) const {
  const auto retry = retries_.find(hint.name);
  if (retry != retries_.end() && context_.clock.boot() < retry->second.next) return false;
  const auto rank = rank_in_group(context_, volume, hint.bucket, hint.partitions, hint.key);
  // On a volume that is not of the group nobody else will find it.
  const auto turn = static_cast<Duration::rep>(rank.value_or(0)) * context_.options.takeover;
  if (!holds(Rule::hint_age)) return context_.clock.wall() >= hint.name.due + turn;
  return hint.age >= context_.options.hint_delay + turn;
}

Task<> HintWorker::work_off(VolumeId volume, StoredHint hint) {
  const HintName name = hint.name;
  auto fate = co_await judge(hint);
  if (!fate || *fate == Fate::keep) {
    const bool old = context_.clock.wall() >= name.due + context_.options.hint_give_up;
    if (!old) {
      put_off(name);
      co_return Result<>{};
    }
    fate = Fate::given_up;
  }
  CO_CHECK(co_await drop(volume, hint));
  retries_.erase(name);
  const bool removed = *fate == Fate::removed;
  context_.board->change([removed](BackgroundStatus& status) {
    ++(removed ? status.hints_done : status.hints_given_up);
  });
  co_return Result<>{};
}

Task<HintWorker::Fate> HintWorker::judge(StoredHint hint) {
  const Deadline deadline = context_.step_deadline();
  CO_TRY(blob, decode_locations(hint.name.write_id, hint.locations));
  CO_TRY(chosen, co_await is_chosen(hint, deadline));
  if (!chosen && holds(Rule::hint_chosen)) co_return Fate::keep;
  CO_TRY(named, co_await free_of(hint, blob, deadline));
  if (!named) co_return Fate::keep;
  if (blob.manifest_page) {
    CO_TRY(emptied, co_await remove_parts(blob, *named, deadline));
    if (!emptied) co_return Fate::keep;
  }
  CO_TRY(removed, co_await remove(std::move(blob), context_.step_deadline()));
  co_return removed ? Fate::removed : Fate::keep;
}

// (1): without it an answer that is older than both values would condemn one that can still be
// chosen.
Task<bool> HintWorker::is_chosen(const StoredHint& hint, Deadline deadline) {
  CO_TRY(replicas, replicas_of_hint(context_, hint));
  const auto executor = co_await boost::asio::this_coro::executor;
  FanOut<Ballot> reads(replicas.volumes.size());
  for (std::size_t i = 0; i < replicas.volumes.size(); ++i) {
    const auto client = context_.membership.volume(replicas.volumes[i]);
    if (client != nullptr) reads.start_at(executor, i, client->read_hint(hint.name, deadline));
  }
  co_await reads.wait_all(context_.clock, deadline);
  std::map<Ballot, IndexMask> holders;
  for (std::size_t i = 0; i < replicas.volumes.size(); ++i) {
    const auto& answer = reads.answer(i);
    if (!answer || !*answer || answer->value().is_zero()) continue;
    holders[answer->value()].add(i);
  }
  co_return std::any_of(holders.begin(), holders.end(),
                        [&](const auto& entry) { return replicas.quorum.reached(entry.second); });
}

// (3) before (2): an upload that has ended cannot hand the blob to the object any more.
Task<std::optional<References>> HintWorker::free_of(const StoredHint& hint, const BlobRef& blob,
                                                    Deadline deadline) {
  const FragmentOwner owner = owner_of(hint);
  CO_TRY(ended, co_await upload_has_ended(context_, owner, deadline));
  if (!ended && holds(Rule::hint_upload)) co_return std::optional<References>();
  if (!holds(Rule::hint_reread)) co_return std::optional<References>(std::in_place);
  const RegisterRef ref = object_of(owner);
  CO_TRY(object, co_await context_.proposer.read(ref, ReadWant::value, deadline));
  CO_TRY(references, co_await references_of(context_, std::move(object), deadline));
  if (names_any(references, blob)) co_return std::optional<References>();
  co_return std::optional<References>(std::move(references));
}

// One part after another: a page names hundreds. A page that cannot be read is tried again, then
// left with its parts to the sweep; one that is gone has gone behind them.
Task<bool> HintWorker::remove_parts(const BlobRef& page, const References& named,
                                    Deadline deadline) {
  const auto bytes = co_await context_.blobs.read_whole(page, deadline);
  if (!bytes && bytes.error().code == Errc::not_found) co_return true;
  if (!bytes) co_return bytes.error();
  CO_TRY(parts, decode_manifest_page(*bytes));
  bool all = true;
  for (PartInfo& part : parts) {
    if (!part.blob) continue;
    if (names_any(named, *part.blob) && holds(Rule::hint_page_parts)) continue;
    if (!co_await pace_.turn()) co_return false;
    CO_TRY(removed, co_await remove(std::move(*part.blob), context_.step_deadline()));
    all = all && removed;
  }
  co_return all;
}

// (4) is the holders' to know. True: no holder has a fragment of the blob any more.
Task<bool> HintWorker::remove(BlobRef blob, Deadline deadline) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const auto map = context_.membership.map();
  References named;
  add_references(blob, named);
  FanOut<void> removals;
  bool reached_all = true;
  for (const auto& [volume, fragment] : named) {
    const auto client = context_.membership.volume(volume);
    if (client == nullptr) {
      reached_all = reached_all && !in_map(*map, volume);  // else it went with its disk
      continue;
    }
    removals.start(executor, client->remove_fragment_if(fragment, RemovalRule::unread, deadline));
  }
  co_await removals.wait_all(context_.clock, deadline);
  std::uint64_t removed = 0;
  const auto answers = removals.take();
  for (const auto& answer : answers) removed += answer && *answer ? 1 : 0;
  context_.board->change(
      [removed](BackgroundStatus& status) { status.fragments_removed_by_hints += removed; });
  co_return reached_all&& removed == answers.size();
}

// On all replicas; one that does not answer keeps its row until it gives up on it.
Task<> HintWorker::drop(VolumeId volume, const StoredHint& hint) {
  const Deadline deadline = context_.step_deadline();
  const auto executor = co_await boost::asio::this_coro::executor;
  CO_TRY(replicas, replicas_of_hint(context_, hint));
  std::vector<VolumeId> holders = replicas.volumes;
  if (std::find(holders.begin(), holders.end(), volume) == holders.end()) {
    holders.push_back(volume);
  }
  FanOut<void> drops;
  for (const VolumeId holder : holders) {
    const auto client = context_.membership.volume(holder);
    if (client == nullptr) continue;
    std::vector<HintName> names(1, hint.name);
    drops.start(executor, client->drop_hints(std::move(names), deadline));
  }
  co_await drops.wait_all(context_.clock, deadline);
  co_return Result<>{};
}

void HintWorker::put_off(const HintName& name) {
  const auto known = retries_.find(name);
  if (known == retries_.end() && retries_.size() >= limits::kHintRetriesMax) return;
  Retry& retry = known == retries_.end() ? retries_[name] : known->second;
  retry.wait = retry.wait == Duration{}
                   ? context_.options.hint_retry_first
                   : std::min(retry.wait * 2, context_.options.hint_retry_last);
  retry.next = context_.clock.boot() + retry.wait;
}

}  // namespace penstock
