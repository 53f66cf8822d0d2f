// Which fragments may not be removed yet (R10, R11), and which are just being changed.
//
// Leases live in memory. A fragment has one from its commit (the row says when), one from each pin,
// and after a restart a short one from the start, until every writer knows of it. Readers' pins are
// kept apart from leases: a hint must not wait for the lease of a fragment that was just written.
// Claims keep commit, replacement and removal of one fragment apart.
// Thread-safety: all methods from any thread.
#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "penstock/limits.h"
#include "penstock/result.h"
#include "penstock/runtime.h"
#include "server/volume/fragments/fragment_format.h"

namespace penstock {

class FragmentLeases {
 public:
  struct Terms {
    Duration lease = limits::kFragmentLease;
    Duration reader_pin = limits::kReaderPin;
    Duration start = limits::kStartLease;  // at most `lease`
  };
  // `start` is this start of the volume, by a random number.
  FragmentLeases(Clock& clock, std::uint64_t start, Terms terms)
      : clock_(clock), start_(start), terms_(terms), opened_(clock.boot()) {}

  // Notes the commit of now in a row.
  void stamp(ExtentRow& row) const;

  // False: the fragment is claimed, by a removal for all that is known. Errors: overloaded.
  Result<bool> pin(const FragmentId& id);
  // The same for a reader.
  Result<bool> pin_for_reader(const FragmentId& id);
  // Takes a pin back that was given to a fragment that is not there.
  void forget(const FragmentId& id);
  // R11: how long the fragment has had neither a lease nor a reader; nullopt: it has.
  std::optional<Duration> unpinned_for(const FragmentId& id, const ExtentRow& row) const;
  // After a start nobody knows the readers: everything counts as just pinned by one.
  bool is_read(const FragmentId& id) const;

  // The right to change one fragment. Movable; gives it back when destroyed.
  class Claim {
   public:
    Claim() = default;
    Claim(Claim&& other) noexcept
        : leases_(std::exchange(other.leases_, nullptr)), id_(other.id_) {}
    Claim& operator=(Claim&& other) noexcept {
      std::swap(leases_, other.leases_);
      std::swap(id_, other.id_);
      return *this;
    }
    ~Claim() {
      if (leases_ != nullptr) leases_->unclaim(id_);
    }

   private:
    friend class FragmentLeases;  // one class in two halves
    Claim(FragmentLeases* leases, const FragmentId& id) : leases_(leases), id_(id) {}
    FragmentLeases* leases_ = nullptr;
    FragmentId id_;
  };
  // Errors: busy - another call has it.
  Result<Claim> claim(const FragmentId& id);

 private:
  using Pins = std::unordered_map<FragmentId, BootTime>;
  void unclaim(const FragmentId& id);
  Result<bool> add(Pins& pins, const FragmentId& id, Duration term);

  Clock& clock_;
  const std::uint64_t start_;
  const Terms terms_;
  const BootTime opened_;
  mutable std::mutex mutex_;
  Pins pinned_until_;
  Pins read_until_;
  std::unordered_set<FragmentId> claimed_;
};

}  // namespace penstock
