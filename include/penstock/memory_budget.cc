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

MemoryBudget::MemoryBudget(std::size_t limit_bytes, Floors floors)
    : limit_bytes_(limit_bytes),
      stock_bytes_(std::min(limits::kMemoryStockBytes, limit_bytes / limits::kMemoryStocks)) {
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
  const std::size_t others = limits::kBudgetAccounts - 1;  // place 0 is the process
  return {static_cast<std::uint32_t>(1 + std::hash<std::string_view>()(id) % others)};
}

bool MemoryBudget::reserve(MemoryUser user, std::size_t bytes) {
  if (!take_bytes(user.use, bytes)) {
    give_back_stocks();
    if (!take_shared(user.use, bytes)) return false;
  }
  if (user.account.place == 0) return true;
  // Counts first and looks then: of two that meet at the bound both may be refused, never both let
  // through.
  auto& held = account_bytes(user);
  held.fetch_add(bytes);
  if (fits_account(user)) return true;
  give_back_stocks();
  if (fits_account(user)) return true;
  held.fetch_sub(bytes);
  put_bytes(user.use, bytes);
  return false;
}

void MemoryBudget::give_back(MemoryUser user, std::size_t bytes) {
  if (user.account.place != 0) account_bytes(user).fetch_sub(bytes);
  put_bytes(user.use, bytes);
}

bool MemoryBudget::take_bytes(MemoryUse use, std::size_t bytes) {
  if (bytes > stock_bytes_) return take_shared(use, bytes);
  auto& stock = shares_.mine().stocks[index_of(use)];
  std::size_t left = stock.load();
  while (left >= bytes) {
    if (stock.compare_exchange_weak(left, left - bytes)) return true;
  }
  if (!take_shared(use, stock_bytes_)) return false;
  stock.fetch_add(stock_bytes_ - bytes);
  return true;
}

// As with accounts: counts first and looks then.
bool MemoryBudget::take_shared(MemoryUse use, std::size_t bytes) {
  Part& part = parts_[index_of(use)];
  const std::size_t before = part.used.fetch_add(bytes);
  const std::size_t common = part.beyond(before + bytes) - part.beyond(before);
  if (common == 0 || common_used_.fetch_add(common) + common <= common_bytes_) return true;
  put_shared(use, bytes);
  return false;
}

// A stock that has grown to more than two goes back to one.
void MemoryBudget::put_bytes(MemoryUse use, std::size_t bytes) {
  if (bytes > stock_bytes_) return put_shared(use, bytes);
  auto& stock = shares_.mine().stocks[index_of(use)];
  std::size_t left = stock.fetch_add(bytes) + bytes;
  while (left > 2 * stock_bytes_) {
    if (!stock.compare_exchange_weak(left, stock_bytes_)) continue;
    return put_shared(use, left - stock_bytes_);
  }
}

void MemoryBudget::put_shared(MemoryUse use, std::size_t bytes) {
  Part& part = parts_[index_of(use)];
  const std::size_t before = part.used.fetch_sub(bytes);
  PENSTOCK_ASSERT(before >= bytes);
  const std::size_t common = part.beyond(before) - part.beyond(before - bytes);
  // Another thread may have counted its part, but not yet what of it is common: so this may be
  // below zero for a moment.
  if (common > 0) common_used_.fetch_sub(common);
}

void MemoryBudget::give_back_stocks() {
  shares_.all([this](Share& share) {
    for (std::size_t i = 0; i < kUses; ++i) {
      if (share.stocks[i].load() == 0) continue;
      put_shared(static_cast<MemoryUse>(i), share.stocks[i].exchange(0));
    }
  });
}

std::atomic<std::size_t>& MemoryBudget::account_bytes(MemoryUser user) {
  Share& share = shares_.mine();
  Counters* accounts = share.accounts.load();
  if (accounts == nullptr) {
    auto made = std::make_unique<Counters[]>(limits::kBudgetAccounts);
    if (share.accounts.compare_exchange_strong(accounts, made.get())) accounts = made.release();
  }
  return accounts[user.account.place][index_of(user.use)];
}

std::size_t MemoryBudget::held_by(MemoryUser user) const {
  std::size_t sum = 0;
  shares_.all([&](const Share& share) {
    const Counters* accounts = share.accounts.load();
    if (accounts != nullptr) sum += accounts[user.account.place][index_of(user.use)].load();
  });
  // Counted by one thread and given back by another while this was summed: below zero.
  return static_cast<std::ptrdiff_t>(sum) < 0 ? 0 : sum;
}

bool MemoryBudget::fits_account(MemoryUser user) const {
  const Part& part = parts_[index_of(user.use)];
  const std::size_t used = part.used.load();
  const std::size_t most = limits::kAccountFactor * free_bytes(part, used);
  return used <= most || held_by(user) <= most;  // nobody holds more than all do
}

std::size_t MemoryBudget::free_bytes(const Part& part, std::size_t used) const {
  const std::size_t own = part.floor - std::min(part.floor, used);
  return own + common_bytes_ - std::min(common_bytes_, common_used_.load());
}

// Of x bytes more an account may hold held + x <= factor * (free - x). What it holds is only looked
// up where that could make much of a difference.
std::size_t MemoryBudget::room_for(MemoryUser user) const {
  const Part& part = parts_[index_of(user.use)];
  std::size_t held = part.used.load();
  const std::size_t free = free_bytes(part, held);
  if (user.account.place == 0) return free;
  const std::size_t most = limits::kAccountFactor * free;
  if (held > free / 4) held = std::min(held, held_by(user));
  return (most - std::min(most, held)) / (limits::kAccountFactor + 1);
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
  for (std::size_t i = 0; i < kUses; ++i) used += used_bytes(static_cast<MemoryUse>(i));
  return used;
}

std::size_t MemoryBudget::used_bytes(MemoryUse use) const {
  std::size_t stocks = 0;
  shares_.all([&](const Share& share) { stocks += share.stocks[index_of(use)].load(); });
  const std::size_t reserved = parts_[index_of(use)].used.load();
  return reserved - std::min(reserved, stocks);
}

std::size_t MemoryBudget::reserved_bytes() const {
  std::size_t reserved = 0;
  for (const Part& part : parts_) reserved += part.used.load(std::memory_order_relaxed);
  return reserved;
}

}  // namespace penstock
