#include "server/volume/fragment_leases.h"

#include "penstock/limits.h"

namespace penstock {

void FragmentLeases::stamp(ExtentRow& row) const {
  row.start = start_;
  row.committed_us = static_cast<std::uint64_t>(clock_.boot().time_since_epoch().count());
}

Result<bool> FragmentLeases::pin(const FragmentId& id) {
  const BootTime now = clock_.boot();
  std::lock_guard lock(mutex_);
  if (claimed_.contains(id)) return false;
  if (pinned_until_.size() >= limits::kFragmentLeasesMax && !pinned_until_.contains(id)) {
    std::erase_if(pinned_until_, [now](const auto& entry) { return entry.second <= now; });
    if (pinned_until_.size() >= limits::kFragmentLeasesMax) {
      return fail(Errc::overloaded, "too many leases on fragments");
    }
  }
  pinned_until_[id] = now + limits::kFragmentLease;
  return true;
}

void FragmentLeases::forget(const FragmentId& id) {
  std::lock_guard lock(mutex_);
  pinned_until_.erase(id);
}

bool FragmentLeases::is_pinned(const FragmentId& id, const ExtentRow& row) const {
  const BootTime now = clock_.boot();
  const BootTime committed{Duration(static_cast<Duration::rep>(row.committed_us))};
  if (now < (row.start == start_ ? committed : opened_) + limits::kFragmentLease) return true;
  std::lock_guard lock(mutex_);
  const auto found = pinned_until_.find(id);
  return found != pinned_until_.end() && now < found->second;
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
  claimed_.erase(id);
}

}  // namespace penstock
