#include "gateway/http/http_deadlines.h"

#include <algorithm>

#include "penstock/assert.h"

namespace penstock {

DeadlineWheel::DeadlineWheel(BootTime now, Duration tick)
    : origin_(now), now_(now), unhurried_(now), tick_(tick), slots_(kSlots) {
  PENSTOCK_ASSERT(tick > Duration::zero());
}

std::uint64_t DeadlineWheel::tick_of(BootTime when) const {
  const auto since = std::max(when - origin_, Duration::zero());
  return static_cast<std::uint64_t>((since + tick_ - Duration(1)) / tick_);
}

void DeadlineWheel::arm(Entry& entry, Duration after) {
  // now_ may be one tick old: without that tick a deadline could fire early.
  entry.due_ = now_ + after + tick_;
  if (entry.is_linked() && entry.slot_tick_ <= tick_of(entry.due_)) return;
  link(entry);
}

// Deadlines beyond the wheel's turn wait in its last slot and are put back from there.
void DeadlineWheel::link(Entry& entry) {
  entry.unlink();
  entry.slot_tick_ =
      std::clamp<std::uint64_t>(tick_of(entry.due_), current_tick_ + 1, current_tick_ + kSlots - 1);
  slots_[entry.slot_tick_ % kSlots].push_back(entry);
}

void DeadlineWheel::fire(Slot& slot) {
  Slot due;
  due.swap(slot);  // entries that are put back must not be met again
  while (!due.empty()) {
    Entry& entry = due.front();
    if (entry.due_ == BootTime::max()) {
      entry.unlink();
    } else if (entry.due_ > now_) {
      link(entry);
    } else {
      entry.unlink();
      disarm(entry);
      entry.on_deadline();
    }
  }
}

void DeadlineWheel::advance(BootTime now) {
  unhurried_ += std::clamp<Duration>(now - now_, Duration(0), 2 * tick_);
  now_ = std::max(now_, now);
  const auto target = static_cast<std::uint64_t>((now_ - origin_) / tick_);
  // After a long pause one turn meets every entry.
  if (target > current_tick_ + kSlots) current_tick_ = target - kSlots;
  while (current_tick_ < target) {
    ++current_tick_;
    fire(slots_[current_tick_ % kSlots]);
  }
}

}  // namespace penstock
