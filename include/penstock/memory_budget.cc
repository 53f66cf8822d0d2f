#include "penstock/memory_budget.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "penstock/assert.h"

namespace penstock {
namespace {
constexpr std::chrono::milliseconds kFirstLook{5};
constexpr std::size_t kSixteenths = 16;
}  // namespace

MemoryBudget::MemoryBudget(std::size_t limit_bytes, Floors floors) : limit_bytes_(limit_bytes) {
  const std::size_t kept = std::accumulate(floors.begin(), floors.end(), std::size_t{0});
  PENSTOCK_ASSERT(kept <= limit_bytes);
  common_bytes_ = limit_bytes - kept;
  for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].floor = floors[i];
}

MemoryBudget::Floors MemoryBudget::floors_of(std::size_t limit_bytes) {
  const std::size_t one = limit_bytes / kSixteenths;
  Floors floors{};
  floors[index_of(MemoryUse::work)] = limits::kMemoryFloorWork * one;
  floors[index_of(MemoryUse::reads)] = limits::kMemoryFloorReads * one;
  floors[index_of(MemoryUse::writes)] = limits::kMemoryFloorWrites * one;
  floors[index_of(MemoryUse::documents)] = limits::kMemoryFloorDocuments * one;
  return floors;
}

MemoryAccount MemoryBudget::account(std::string_view id) {
  std::call_once(accounts_made_,
                 [this] { accounts_ = std::make_unique<AccountUse[]>(limits::kBudgetAccounts); });
  const std::size_t others = limits::kBudgetAccounts - 1;  // place 0 is the process
  return {static_cast<std::uint32_t>(1 + std::hash<std::string_view>()(id) % others)};
}

// Counts first and looks then: of two that meet at the bound both may be refused, never both let
// through.
bool MemoryBudget::reserve(MemoryUser user, std::size_t bytes) {
  Part& part = parts_[index_of(user.use)];
  const std::size_t before = part.used.fetch_add(bytes);
  const std::size_t common = part.beyond(before + bytes) - part.beyond(before);
  const std::size_t common_after = common > 0 ? common_used_.fetch_add(common) + common
                                              : common_used_.load(std::memory_order_relaxed);
  const bool fits = common == 0 || common_after <= common_bytes_;
  if (fits && user.account.place == 0) return true;
  if (fits) {
    const std::size_t own = part.floor - std::min(part.floor, before + bytes);
    const std::size_t free = own + common_bytes_ - std::min(common_bytes_, common_after);
    auto& held = accounts_[user.account.place].used[index_of(user.use)];
    if (held.fetch_add(bytes) + bytes <= limits::kAccountFactor * free) return true;
    const std::size_t before_it = held.fetch_sub(bytes);
    PENSTOCK_ASSERT(before_it >= bytes);
  }
  give_back_part(part, bytes);
  return false;
}

void MemoryBudget::give_back_part(Part& part, std::size_t bytes) {
  const std::size_t before = part.used.fetch_sub(bytes);
  PENSTOCK_ASSERT(before >= bytes);
  const std::size_t common = part.beyond(before) - part.beyond(before - bytes);
  // Another thread may have counted its part, but not yet what of it is common: so this may be
  // below zero for a moment.
  if (common > 0) common_used_.fetch_sub(common);
}

void MemoryBudget::give_back(MemoryUser user, std::size_t bytes) {
  if (user.account.place != 0) {
    auto& held = accounts_[user.account.place].used[index_of(user.use)];
    const std::size_t before = held.fetch_sub(bytes);
    PENSTOCK_ASSERT(before >= bytes);
  }
  give_back_part(parts_[index_of(user.use)], bytes);
}

Result<MemoryBudget::Lease> MemoryBudget::take(MemoryUser user, std::size_t bytes) {
  if (!reserve(user, bytes)) return fail(Errc::overloaded, "memory budget is used up");
  return Lease(this, user, bytes);
}

Result<> MemoryBudget::Lease::grow(std::size_t bytes) {
  PENSTOCK_ASSERT(budget_ != nullptr);
  if (!budget_->reserve(user_, bytes)) return fail(Errc::overloaded, "memory budget is used up");
  bytes_ += bytes;
  return {};
}

void MemoryBudget::Lease::shrink_to(std::size_t bytes) {
  if (bytes >= bytes_) return;
  PENSTOCK_ASSERT(budget_ != nullptr);
  budget_->give_back(user_, bytes_ - bytes);
  bytes_ = bytes;
}

// Looks again and again: what is given back may be anybody's, and whoever waits longest need not be
// the one whom it fits.
Task<MemoryBudget::Lease> MemoryBudget::take_patiently(Clock& clock, MemoryUser user,
                                                       std::size_t bytes, BootTime until) {
  Duration pause = kFirstLook;
  while (true) {
    auto lease = take(user, bytes);
    const BootTime now = clock.boot();
    if (lease || now >= until) co_return lease;
    const BootTime next = std::min(until, now + pause);
    co_await clock.sleep_until(next);
    pause = std::min<Duration>(2 * pause, limits::kMemoryLookMax);
  }
}

std::size_t MemoryBudget::used_bytes() const {
  std::size_t used = 0;
  for (const Part& part : parts_) used += part.used.load();
  return used;
}

}  // namespace penstock
