// One budget for the memory that requests hold: bodies on their way in and out, documents, long
// heads.
//
// Each kind of use has a part of the budget for itself, which no other kind can take; what is left
// is for whoever comes first. Within a kind an account holds at most limits::kAccountFactor times
// what is still free. Alone it gets four fifths; as others come, all of them meet at equal parts;
// and something is always left for one more. Nobody has to know how many accounts are active.
//
// A small request touches no counter that those of other threads touch: each thread takes a stock
// of the budget and serves its small leases from that. Before anything is refused, all stocks are
// given back. What an account holds is counted by thread, and summed only once its kind has so
// little left that one account might have too much.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "penstock/limits.h"
#include "penstock/result.h"
#include "penstock/runtime.h"
#include "penstock/thread_parts.h"

namespace penstock {

enum class MemoryUse : std::uint8_t { work, reads, writes, documents };
inline constexpr std::array<std::string_view, 4> kMemoryUseNames{"work", "reads", "writes",
                                                                 "documents"};

// The account that the memory belongs to. The default is the process itself, which has no part of
// its own beside those of the kinds.
struct MemoryAccount {
  std::uint32_t place = 0;
};
struct MemoryUser {
  MemoryUse use = MemoryUse::work;
  MemoryAccount account;
};

// Thread-safety: all methods from any thread; no locks.
class MemoryBudget {
 public:
  // In bytes, by MemoryUse; together at most the limit.
  using Floors = std::array<std::size_t, kMemoryUseNames.size()>;
  // Without floors: all of it is for whoever comes first.
  explicit MemoryBudget(std::size_t limit_bytes) : MemoryBudget(limit_bytes, Floors{}) {}
  MemoryBudget(std::size_t limit_bytes, Floors floors);
  // As limits.h has them.
  static Floors floors_of(std::size_t limit_bytes);

  // Bytes of the budget; gives them back when destroyed.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          user_(other.user_),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(user_, other.user_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Lease() {
      if (budget_ != nullptr) budget_->give_back(user_, bytes_);
    }
    std::size_t bytes() const { return bytes_; }
    // Takes `bytes` more. Pre: it was taken from a budget. Errors: as take().
    Result<> grow(std::size_t bytes);
    // Gives back what it has beyond `bytes`.
    void shrink_to(std::size_t bytes);

   private:
    friend class MemoryBudget;  // one class in two halves
    Lease(MemoryBudget* budget, MemoryUser user, std::size_t bytes)
        : budget_(budget), user_(user), bytes_(bytes) {}
    MemoryBudget* budget_ = nullptr;
    MemoryUser user_;
    std::size_t bytes_ = 0;
  };
  // Errors: overloaded - the budget, the part of this use or that of the account would be passed.
  Result<Lease> take(MemoryUser user, std::size_t bytes);
  Result<Lease> take(std::size_t bytes) { return take(MemoryUser{}, bytes); }
  // As take(); tries until `until` before it fails.
  Task<Lease> take_patiently(Clock& clock, MemoryUser user, std::size_t bytes, BootTime until);
  // The place of an account, by its id. Ids may share one, and then its part.
  MemoryAccount account(std::string_view id);

  // Of leases; stocks do not count. Cost: a look at all threads' stocks.
  std::size_t used_bytes() const;
  std::size_t used_bytes(MemoryUse use) const;
  std::size_t limit_bytes() const { return limit_bytes_; }
  // `bytes` more would leave half of the budget free: there is room for what only speeds things up.
  // Here and in the next one stocks count as used.
  bool has_plenty(std::size_t bytes) const { return reserved_bytes() + bytes <= limit_bytes_ / 2; }
  // What `user` may still take, or a little less. For who may do with less; a take() may fail all
  // the same. Cost: with much in use a look at what all threads have counted of its account.
  std::size_t room_for(MemoryUser user) const;
  // A quarter of it is free: what was taken may be kept a while to save work.
  bool has_some() const { return reserved_bytes() <= limit_bytes_ / 4 * 3; }

 private:
  static constexpr std::size_t kUses = kMemoryUseNames.size();
  using Counters = std::array<std::atomic<std::size_t>, kUses>;
  struct alignas(64) Part {
    std::atomic<std::size_t> used{0};
    std::size_t floor = 0;
    // What `used` bytes take of the common bytes.
    std::size_t beyond(std::size_t bytes) const { return bytes > floor ? bytes - floor : 0; }
  };
  // Of one thread. What is taken by one thread may be given back by another: so a thread's count of
  // an account may be below zero, and only the sum over all threads is what the account holds.
  struct Share {
    Share() = default;
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() { delete[] accounts.load(); }
    Counters stocks{};                         // taken of the budget, by use, for leases to come
    std::atomic<Counters*> accounts{nullptr};  // by place; made for the thread's first account
  };
  static constexpr std::size_t index_of(MemoryUse use) { return static_cast<std::size_t>(use); }
  std::size_t reserved_bytes() const;
  bool reserve(MemoryUser user, std::size_t bytes);
  void give_back(MemoryUser user, std::size_t bytes);
  // From the thread's stock or the budget; the latter alone.
  bool take_bytes(MemoryUse use, std::size_t bytes);
  bool take_shared(MemoryUse use, std::size_t bytes);
  void put_bytes(MemoryUse use, std::size_t bytes);
  void put_shared(MemoryUse use, std::size_t bytes);
  void give_back_stocks();
  std::atomic<std::size_t>& account_bytes(MemoryUser user);
  std::size_t held_by(MemoryUser user) const;
  bool fits_account(MemoryUser user) const;
  // For a part that has used so much.
  std::size_t free_bytes(const Part& part, std::size_t used) const;

  const std::size_t limit_bytes_;
  const std::size_t stock_bytes_;  // taken at a time; no larger lease comes from a stock
  std::size_t common_bytes_;
  std::array<Part, kUses> parts_;
  // Always the sum of what the parts have beyond their floors.
  alignas(64) std::atomic<std::size_t> common_used_{0};
  ThreadParts<Share> shares_;
};

}  // namespace penstock
