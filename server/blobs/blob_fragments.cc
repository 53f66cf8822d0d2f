#include "server/blobs/blob_fragments.h"

#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include "penstock/assert.h"
#include "penstock/busy_pause.h"
#include "penstock/caught.h"
#include "penstock/fan_out.h"
#include "penstock/limits.h"
#include "penstock/log.h"
#include "penstock/planted.h"
#include "penstock/request_name.h"
#include "penstock/volume_note.h"
#include "server/blobs/blob_shape.h"
#include "server/membership/slow_volumes.h"

namespace penstock {
namespace {

constexpr Duration kMoment = std::chrono::milliseconds(500);  // what one cause may spread over

// Does this failure say that the volume itself is in trouble?
bool blames_volume(Errc code) { return code != Errc::full && code != Errc::overloaded; }

}  // namespace

BlobFragments::BlobFragments(BlobContext& context, Executor executor, FragmentOwner owner,
                             Layout layout, WriteId write_id, const std::vector<VolumeId>& volumes)
    : context_(context),
      executor_(std::move(executor)),
      owner_(std::move(owner)),
      layout_(layout),
      write_id_(write_id),
      slots_(layout.shape().slots()) {
  PENSTOCK_ASSERT(volumes.size() == slots_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].volume = volumes[i];
    slots_[i].generation = Generation{context.random.next()};
    slots_[i].client = context.membership.volume(volumes[i]);
  }
}

FragmentId BlobFragments::fragment(std::uint32_t index) const {
  return {write_id_, static_cast<std::uint8_t>(index), slots_[index].generation};
}

Task<> BlobFragments::open(Deadline deadline) {
  trace_ = deadline.trace();
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].client == nullptr) {
      drop(i, fail(Errc::unavailable, "no connection"), Blame::by_error);
    } else {
      Step step;
      step.deadline = deadline;
      add_step(i, std::move(step));
    }
  }
  std::function<bool()> enough = [this] {
    return std::none_of(slots_.begin(), slots_.end(),
                        [](const Slot& slot) { return slot.running && !slot.error; });
  };
  CO_CHECK(co_await wait_for(std::move(enough), deadline));
  opened_ = true;
  co_return Result<>{};
}

void BlobFragments::append(FragmentPiece piece) {
  const std::uint32_t index = piece.slot;
  Step step;
  step.kind = StepKind::append;
  step.piece = std::move(piece);
  add_step(index, std::move(step));
}

Task<> BlobFragments::commit(Deadline deadline) {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    Step step;
    step.kind = StepKind::commit;
    step.deadline = deadline;
    add_step(i, std::move(step));
  }
  if (!holds(Rule::data_before_record)) co_return Result<>{};
  std::function<bool()> enough = [this] {
    const auto committed = [](const Slot& slot) { return slot.committed; };
    const auto ended = [](const Slot& slot) { return slot.committed || slot.error; };
    if (!holds(Rule::all_slots)) {
      return std::count_if(slots_.begin(), slots_.end(), committed) >=
             fragments_needed(layout_.shape());
    }
    return std::all_of(slots_.begin(), slots_.end(), ended);
  };
  CO_CHECK(co_await wait_for(std::move(enough), deadline));
  for (Slot& slot : slots_) {
    if (!slot.running) slot.writer.reset();
  }
  memory_ = std::make_shared<Memory>();  // pieces of a stalled volume keep theirs
  co_return Result<>{};
}

void BlobFragments::add_step(std::uint32_t index, Step step) {
  Slot& slot = slots_[index];
  if (slot.error || abandoned_) return;
  slot.steps.push_back(std::move(step));
  if (!is_busy(slot)) slot.progress = context_.clock.boot();
  if (slot.running) return;
  slot.running = true;
  boost::asio::co_spawn(executor_, run_chain(shared_from_this(), index), boost::asio::detached);
}

Awaitable<void> BlobFragments::run_chain(Self self, std::uint32_t index) {
  Slot& slot = self->slots_[index];
  while (!slot.steps.empty() && !slot.error && !self->abandoned_) {
    Step step = std::move(slot.steps.front());
    slot.steps.pop_front();
    const BootTime began = self->context_.clock.boot();
    const StepKind kind = step.kind;
    if (kind == StepKind::append) {
      self->lend(slot, step.piece);
      // As long as space() waits.
      step.deadline = {began + limits::kOperationDeadline, self->trace_};
    }
    const Deadline deadline = step.deadline;
    const auto id = self->fragment(index);
    FragmentShape shape;
    shape.data_bytes = self->layout_.fragment_bytes(index);
    if (kind == StepKind::open) {
      shape.owner = self->owner_;
      slot.lease = self->lease_from_now();
    }
    Result<> done;
    try {
      done = co_await self->run_step(&slot, std::move(step), id, std::move(shape));
    } catch (...) {
      done = error_of_exception("a step of an upload");
    }
    if (slot.error) break;  // given up while it was under way
    if (!done) {
      // What this process gave up, or ran out of its own time, says nothing of the volume: that it
      // is slower than the others, drop_late() finds out.
      const bool own_end = self->abandoned_ || self->context_.clock.boot() >= deadline;
      const bool late = own_end && done.error().code == Errc::timeout;
      self->drop(index, done.error(), late ? Blame::nobody : Blame::by_error);
    } else {
      self->note_done(index, kind, began);
    }
    self->wakeup_.notify();
  }
  slot.running = false;
  if (slot.error || self->abandoned_) {
    slot.steps.clear();
    slot.writer.reset();
  }
  self->wakeup_.notify();
}

void BlobFragments::note_done(std::uint32_t index, StepKind kind, BootTime began) {
  Slot& slot = slots_[index];
  if (kind == StepKind::append) return note_written(slot);
  slot.progress = context_.clock.boot();
  if (kind != StepKind::commit) return;
  slot.committed = true;
  context_.membership.report_durable(slot.volume);
  const Duration transfer = std::max<Duration>(slot.progress - began - Duration(kSyncTime), {});
  context_.membership.report_transfer(slot.volume, layout_.fragment_bytes(index), transfer);
}

// The piece counts as under way until its memory is free: a volume may answer before it has
// written.
void BlobFragments::lend(Slot& slot, FragmentPiece& piece) {
  note_written(slot);
  const auto credit = std::make_shared<Credit>(Credit{std::move(piece.credit), memory_});
  slot.credits.push_back(credit);
  piece.data = piece.data.keeping(credit);
}

std::function<void()> BlobFragments::notifier() {
  return [executor = executor_, weak = weak_from_this()] {
    boost::asio::post(executor, [weak] {
      if (const auto self = weak.lock()) self->wakeup_.notify();
    });
  };
}

// A volume with too much to do is asked again: without it the blob would have a smaller layout.
Task<> BlobFragments::open_slot(Slot* slot, FragmentId id, FragmentShape shape, Deadline deadline) {
  const Deadline until = deadline.capped(context_.clock.boot() + Duration(kBusyPatience));
  while (true) {
    auto writer = co_await slot->client->write_fragment(id, shape, deadline);
    if (writer) {
      slot->writer = std::move(*writer);
      co_return Result<>{};
    }
    const bool busy = writer.error().code == Errc::overloaded;
    if (!busy || slot->error || abandoned_) co_return std::move(writer).error();
    const BootTime again = context_.clock.boot() + busy_pause(context_.random.next(), kBusyRound);
    if (again >= until) co_return std::move(writer).error();
    co_await context_.clock.sleep_until(again);
  }
}

Task<> BlobFragments::run_step(Slot* slot, Step step, FragmentId id, FragmentShape shape) {
  const Deadline deadline = step.deadline;
  switch (step.kind) {
    case StepKind::open:
      co_return co_await open_slot(slot, id, std::move(shape), deadline);
    case StepKind::append: {
      Buffer data = std::move(step.piece.data);
      std::vector<std::uint32_t> crcs = std::move(step.piece.crcs);
      CO_CHECK(co_await slot->writer->append(std::move(data), std::move(crcs), deadline));
      co_return Result<>{};
    }
    case StepKind::commit:
      slot->commit_sent = true;
      CO_CHECK(co_await slot->writer->commit(deadline));
      co_return Result<>{};
  }
  co_return Result<>{};
}

void BlobFragments::drop(std::uint32_t index, const Error& error, Blame blame) {
  Slot& slot = slots_[index];
  slot.error = error.code;
  slot.steps.clear();
  for (const auto& lent : slot.credits) {  // the others need not wait for a stalled one
    if (const auto credit = lent.lock()) credit->held.reset();
  }
  slot.credits.clear();
  if (slot.writer) slot.writer->give_up();
  if (blame == Blame::by_error && error.code == Errc::timeout) {
    context_.membership.report_stalled(slot.volume);
  } else if (blame == Blame::by_error && blames_volume(error.code)) {
    context_.membership.report_fragment(slot.volume, false);
  }
  log_dropped(index, error);
}

// A broken volume is dropped from all uploads.
void BlobFragments::log_dropped(std::uint32_t index, const Error& error) const {
  const std::string volume = hex_name(slots_[index].volume.value);
  const auto left_out = context_.dropped_lines.take(context_.clock.boot(), volume);
  if (!left_out) return;
  const bool known = !trace_.is_zero();
  log_event(LogLevel::warn, "fragment_dropped",
            {{known ? "request_id" : "", known ? request_id_text(trace_) : ""},
             {"volume", volume},
             {"slot", std::to_string(index)},
             {"code", std::string(to_string(error.code))},
             {"reason", error.context},
             {*left_out > 0 ? "left_out" : "", std::to_string(*left_out)}});
}

// A step is under way, or its volume has still to write what it was given.
bool BlobFragments::is_busy(const Slot& slot) {
  return slot.running || std::any_of(slot.credits.begin(), slot.credits.end(),
                                     [](const auto& lent) { return !lent.expired(); });
}

bool BlobFragments::late(const Slot& slot, BootTime now, Duration patience) const {
  return !slot.error && is_busy(slot) && now - std::max(slot.progress, resumed_) >= patience;
}

// A step that begins, or an answer that its volume gives before it has written, is no progress
// while earlier pieces are not written: a disk that hangs takes as many as have room. (Of a volume
// elsewhere a piece is free when it was sent, so there what was sent counts.)
void BlobFragments::note_written(Slot& slot) const {
  const auto written = std::erase_if(slot.credits, [](const auto& lent) { return lent.expired(); });
  if (written > 0) slot.progress = context_.clock.boot();
}

// A slot that is late and goes on was part of a stall, which may be over: the others, which come
// back with it, are given their time anew. So are all when nobody looked as one became late: this
// process stood still, or a slow client let it wait for nothing.
void BlobFragments::note_late(BootTime now) {
  for (Slot& slot : slots_) note_written(slot);
  const auto was_missed = [&](const Slot& slot) {
    return !slot.was_late && late(slot, now, limits::kNoProgress + kMoment);
  };
  const auto is_back = [&](const Slot& slot) {
    return slot.was_late && !slot.error && !late(slot, now, limits::kNoProgress);
  };
  if (std::any_of(slots_.begin(), slots_.end(), is_back) ||
      std::any_of(slots_.begin(), slots_.end(), was_missed)) {
    resumed_ = now;
  }
  for (Slot& slot : slots_) slot.was_late = late(slot, now, limits::kNoProgress);
}

// If all are late, they have one cause (a busy machine), and dropping some would help nobody; steps
// of one upload begin a moment apart, so those that soon will be late count with them.
// Before the first byte others may take their places. Behind it an upload ends that drops too many:
// so it gives them as long as disks stall, and only tells on them, for the next to go elsewhere.
void BlobFragments::drop_late(BootTime now) {
  note_late(now);
  const auto is_lost = [&](const Slot& slot) {
    return slot.error || late(slot, now, limits::kNoProgress - kMoment);
  };
  const auto lost = std::count_if(slots_.begin(), slots_.end(), is_lost);
  const std::size_t good = slots_.size() - static_cast<std::size_t>(lost);
  if (good == 0) return;
  const bool ends = opened_ && good < fragments_needed(layout_.shape());
  const Duration patience = ends ? Duration(limits::kStallPatience) : Duration(limits::kNoProgress);
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (late(slot, now, patience)) {
      const auto text = "no progress for " + std::to_string(patience / std::chrono::seconds(1));
      drop(i, fail(Errc::timeout, text + " s"), Blame::by_error);
    } else if (slot.was_late) {
      context_.membership.report_stalled(slot.volume);
    }
  }
}

BootTime BlobFragments::next_look(BootTime now, Deadline deadline) const {
  BootTime next = deadline;
  for (const Slot& slot : slots_) {
    if (slot.error || !is_busy(slot)) continue;
    for (const Duration patience :
         {Duration(limits::kNoProgress), Duration(limits::kStallPatience)}) {
      const BootTime look = std::max(slot.progress, resumed_) + patience;
      if (look > now) next = std::min(next, look);
    }
  }
  return next;
}

Task<> BlobFragments::wait_for(std::function<bool()> enough, Deadline deadline) {
  const Self self = shared_from_this();
  while (true) {
    CO_CHECK(check());
    if (enough()) co_return Result<>{};
    const BootTime now = context_.clock.boot();
    drop_late(now);
    CO_CHECK(check());
    if (enough()) co_return Result<>{};
    if (now >= deadline) co_return fail(Errc::timeout, "volumes did not take the fragments");
    co_await wakeup_.wait(context_.clock, next_look(now, deadline));
  }
}

Result<> BlobFragments::check() const {
  std::size_t live = 0, full = 0;
  for (const Slot& slot : slots_) {
    if (!slot.error) ++live;
    if (slot.error == Errc::full) ++full;
  }
  if (live >= fragments_needed(layout_.shape())) return {};
  const std::string left = std::to_string(live) + " of " + std::to_string(slots_.size()) +
                           " volumes are left to the upload";
  return fail(full + live == slots_.size() ? Errc::full : Errc::unavailable, left);
}

void BlobFragments::abandon() {
  abandoned_ = true;
  for (Slot& slot : slots_) {
    slot.steps.clear();
    // A commit may be what the caller waits for before it removes the fragment.
    if (slot.running && slot.writer && !slot.commit_sent) slot.writer->give_up();
    if (!slot.running) slot.writer.reset();
  }
  memory_ = std::make_shared<Memory>();
}

Awaitable<void> BlobFragments::remove_all() {
  const Self self = shared_from_this();
  abandon();
  const Deadline deadline = context_.clock.boot() + limits::kNoProgress;
  const auto waits_for = [&](bool Slot::*flag, bool value) {
    return std::any_of(slots_.begin(), slots_.end(), [=](const Slot& slot) {
      return slot.commit_sent && !slot.error && slot.*flag != value;
    });
  };
  while (waits_for(&Slot::running, false) && context_.clock.boot() < deadline) {
    co_await wakeup_.wait(context_.clock, deadline);
  }
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].commit_sent) continue;
    boost::asio::co_spawn(executor_, run_remove(self, i, deadline), boost::asio::detached);
  }
  while (waits_for(&Slot::removed, true) && context_.clock.boot() < deadline) {
    co_await wakeup_.wait(context_.clock, deadline);
  }
}

Awaitable<void> BlobFragments::run_remove(Self self, std::uint32_t index, Deadline deadline) {
  const auto client = self->slots_[index].client;
  const auto id = self->fragment(index);
  try {
    auto gone = co_await client->remove_fragment(id, deadline);
    (void)gone;  // the sweep finds what stays
  } catch (...) {
    report_exception("a removal of a fragment");
  }
  self->slots_[index].removed = true;
  self->wakeup_.notify();
}

BlobRef BlobFragments::blob() const {
  BlobRef blob;
  blob.write_id = write_id_;
  blob.shape = layout_.shape();
  for (const Slot& slot : slots_) {
    blob.locations.push_back(slot.error ? Location{} : Location{slot.volume, slot.generation});
  }
  return blob;
}

std::vector<std::pair<VolumeId, Errc>> BlobFragments::dropped() const {
  std::vector<std::pair<VolumeId, Errc>> list;
  for (const Slot& slot : slots_) {
    if (slot.error) list.emplace_back(slot.volume, *slot.error);
  }
  return list;
}

BlobFragments::Lease BlobFragments::lease_from_now() const {
  const auto& changes = context_.options.connection_changes;
  return {context_.clock.boot(), changes ? changes() : 0};
}

// A holder that has started anew remembers no lease for long. Its connections to this process broke
// with it: whatever connection did, it may have been that holder.
bool BlobFragments::is_fresh(const std::optional<Lease>& lease) const {
  if (!lease) return false;
  const Lease now = lease_from_now();
  const bool kept = now.changes == lease->changes || !holds(Rule::lease_connections);
  return kept && now.from - lease->from < context_.options.lease_fresh;
}

Task<bool> BlobFragments::pin_one(Self self, std::uint32_t index, FragmentId id,
                                  std::shared_ptr<VolumeClient> client, Deadline deadline) {
  const Lease lease = self->lease_from_now();
  std::vector<FragmentId> ids(1, id);
  CO_TRY(missing, co_await client->pin(std::move(ids), deadline));
  if (!missing.empty()) co_return false;
  if (id == self->fragment(index)) self->slots_[index].lease = lease;
  co_return true;
}

Task<std::vector<FragmentId>> BlobFragments::ensure_leases(BlobRef blob, Deadline deadline) {
  const Self self = shared_from_this();
  const BootTime now = context_.clock.boot();
  if (!holds(Rule::leases)) co_return std::vector<FragmentId>();
  const std::uint32_t slots = blob.shape.slots();
  IndexMask pinned;
  FanOut<bool> pins(slots);
  for (std::uint32_t i = 0; i < slots; ++i) {
    if (blob.locations[i].volume.value == 0) continue;
    // No new record names a volume that is being replaced: the last one that does can be found.
    const bool stays = context_.membership.stays(blob.locations[i].volume);
    if (!stays && holds(Rule::leaving_unnamed)) continue;
    const FragmentId id = blob.fragment(i);
    const bool ours = i < slots_.size() && id == fragment(i);
    if (ours && is_fresh(slots_[i].lease)) {
      pinned.add(i);
      continue;
    }
    auto client = context_.membership.volume(blob.locations[i].volume);
    if (client == nullptr) continue;
    pins.start_at(executor_, i, pin_one(self, i, id, std::move(client), deadline));
  }
  const BootTime until = std::min<BootTime>(deadline, now + limits::kNoProgress);
  co_await pins.wait_all(context_.clock, until);
  pinned |= pins.where([](bool done) { return done; });
  if (pinned.count() < fragments_needed(blob.shape)) {
    co_return fail(Errc::unavailable,
                   std::to_string(pinned.count()) + " fragments could be pinned");
  }
  std::vector<FragmentId> missing;
  if (!holds(Rule::unpinned_left_out)) co_return missing;
  for (std::uint32_t i = 0; i < slots; ++i) {
    if (blob.locations[i].volume.value != 0 && !pinned.has(i)) missing.push_back(blob.fragment(i));
  }
  co_return missing;
}

}  // namespace penstock
