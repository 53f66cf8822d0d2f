// One coarse timer wheel per I/O thread instead of a timer per read and write.
//
// Arming a deadline writes one number; the entry moves in the wheel only if it must fire earlier
// than the slot it already waits in. Deadlines fire up to one tick late, never early.
// Thread-safety: none; one wheel per thread.
#pragma once
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/types.h"

namespace penstock {

class DeadlineWheel {
  using Hook =
      boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

 public:
  // Something that waits for at most one deadline at a time. Leaves the wheel when it is destroyed.
  class Entry : public Hook {
   public:
    virtual ~Entry() = default;
    // The deadline has passed and is disarmed. May arm again, may not destroy entries.
    virtual void on_deadline() = 0;

   private:
    friend class DeadlineWheel;  // one class in two halves
    BootTime due_ = BootTime::max();
    std::uint64_t slot_tick_ = 0;  // of the slot it is linked into
  };

  DeadlineWheel(BootTime now, Duration tick);

  void arm(Entry& entry, Duration after);
  static void disarm(Entry& entry) { entry.due_ = BootTime::max(); }
  // The time of the last advance(): good enough for whoever counts in seconds.
  BootTime now() const { return now_; }
  // As now(), but what passed between two advance() counts as two ticks at most: longer ones are
  // the lateness of a busy thread.
  BootTime unhurried() const { return unhurried_; }
  BootTime next_tick() const { return now_ + tick_; }
  // Fires what is due. Call it once per tick; late calls catch up.
  void advance(BootTime now);

 private:
  using Slot = boost::intrusive::list<Entry, boost::intrusive::constant_time_size<false>>;
  static constexpr std::size_t kSlots = 512;

  std::uint64_t tick_of(BootTime when) const;  // the first tick at or after `when`
  void link(Entry& entry);
  void fire(Slot& slot);

  BootTime origin_;
  BootTime now_;
  BootTime unhurried_;
  Duration tick_;
  std::uint64_t current_tick_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace penstock
