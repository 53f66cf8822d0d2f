#include "server/volume/fragments/fragment_leases.h"

#include <algorithm>

#include "penstock/assert.h"
#include "penstock/limits.h"
#include "penstock/planted.h"

namespace penstock {

void FragmentLeases::stamp(ExtentRow& row) const {
  row.start = start_;
  row.committed_us = static_cast<std::uint64_t>(clock_.boot().time_since_epoch().count());
}

Result<bool> FragmentLeases::add(Pins& pins, const FragmentId& id, Duration term) {
  const BootTime now = clock_.boot();
  std::lock_guard lock(mutex_);
  if (claimed_.contains(id)) return false;
  if (pins.size() >= limits::kFragmentLeasesMax && !pins.contains(id)) {
    std::erase_if(pins, [now](const auto& entry) { return entry.second <= now; });
    if (pins.size() >= limits::kFragmentLeasesMax) {
      return fail(Errc::overloaded, "too many leases on fragments");
    }
  }
  pins[id] = now + term;
  return true;
}

Result<bool> FragmentLeases::pin(const FragmentId& id) {
  return add(pinned_until_, id, terms_.lease);
}

Result<bool> FragmentLeases::pin_for_reader(const FragmentId& id) {
  return add(read_until_, id, terms_.reader_pin);
}

void FragmentLeases::forget(const FragmentId& id) {
  std::lock_guard lock(mutex_);
  pinned_until_.erase(id);
  read_until_.erase(id);
}

std::optional<Duration> FragmentLeases::unpinned_for(const FragmentId& id,
                                                     const ExtentRow& row) const {
  const BootTime now = clock_.boot();
  const BootTime committed{Duration(static_cast<Duration::rep>(row.committed_us))};
  // Of an earlier start nobody knows what was pinned, and who reads it.
  const Duration start = std::max(std::min(terms_.start, terms_.lease), terms_.reader_pin);
  BootTime until = row.start == start_ ? committed + terms_.lease : opened_ + start;
  std::lock_guard lock(mutex_);
  for (const Pins* pins : {&pinned_until_, &read_until_}) {
    if (pins == &read_until_ && !holds(Rule::sweep_reader)) continue;
    const auto found = pins->find(id);
    if (found != pins->end()) until = std::max(until, found->second);
  }
  if (now < until) return std::nullopt;
  return now - until;
}

bool FragmentLeases::is_read(const FragmentId& id) const {
  const BootTime now = clock_.boot();
  if (now < opened_ + terms_.reader_pin) return true;
  std::lock_guard lock(mutex_);
  const auto found = read_until_.find(id);
  return found != read_until_.end() && now < found->second;
}

Result<FragmentLeases::Claim> FragmentLeases::claim(const FragmentId& id) {
  std::lock_guard lock(mutex_);
  if (!claimed_.insert(id).second) {
    return fail(Errc::busy, "fragment " + to_string(id) + " is being changed by another call");
  }
  return Claim(this, id);
}

void FragmentLeases::unclaim(const FragmentId& id) {
  std::lock_guard lock(mutex_);
  const std::size_t erased = claimed_.erase(id);
  PENSTOCK_ASSERT(erased == 1);
}

}  // namespace penstock
