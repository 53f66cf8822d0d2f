// What each kind of use and each account can take of the process's memory.
#include "penstock/memory_budget.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace penstock {
namespace {

constexpr std::size_t kLimit = 160;
constexpr MemoryUse kReads = MemoryUse::reads;
constexpr MemoryUse kWrites = MemoryUse::writes;

std::size_t take_all(MemoryBudget& budget, MemoryUser user,
                     std::vector<MemoryBudget::Lease>& leases) {
  std::size_t taken = 0;
  while (true) {
    auto lease = budget.take(user, 1);
    if (!lease) return taken;
    leases.push_back(std::move(*lease));
    ++taken;
  }
}

TEST_CASE("without floors the budget is for whoever comes first") {
  MemoryBudget budget(kLimit);
  std::vector<MemoryBudget::Lease> leases;
  CHECK(take_all(budget, {}, leases) == kLimit);
  CHECK(budget.take({kReads, {}}, 1).error().code == Errc::overloaded);
  leases.pop_back();
  CHECK(budget.take({kReads, {}}, 1).has_value());
  leases.clear();
  CHECK(budget.used_bytes() == 0);
}

TEST_CASE("no kind of use can take what others have for themselves") {
  MemoryBudget budget(kLimit, MemoryBudget::floors_of(kLimit));
  std::vector<MemoryBudget::Lease> writes, reads, documents;
  CHECK(take_all(budget, {kWrites, {}}, writes) == kLimit / 16 * 11);  // its own 4 and the common 7
  CHECK(take_all(budget, {kReads, {}}, reads) == kLimit / 16 * 3);
  CHECK(take_all(budget, {MemoryUse::documents, {}}, documents) == kLimit / 16);
  CHECK(budget.used_bytes() == kLimit / 16 * 15);
  writes.clear();
  CHECK(take_all(budget, {kReads, {}}, reads) == kLimit / 16 * 7);
  CHECK(budget.used_bytes(kReads) == kLimit / 16 * 10);
  reads.clear();
  documents.clear();
  CHECK(budget.used_bytes() == 0);
  CHECK(take_all(budget, {kWrites, {}}, writes) == kLimit / 16 * 11);
}

TEST_CASE("one account takes four fifths, and what is left is for the next") {
  MemoryBudget budget(1000);
  std::vector<MemoryBudget::Lease> first, second, third;
  const MemoryUser a{kWrites, budget.account("a")};
  const MemoryUser b{kWrites, budget.account("b")};
  const MemoryUser c{kWrites, budget.account("c")};
  REQUIRE(a.account.place != b.account.place);
  REQUIRE(a.account.place != 0);
  CHECK(take_all(budget, a, first) == 800);
  CHECK(take_all(budget, b, second) == 160);
  CHECK(take_all(budget, c, third) == 32);
  CHECK(take_all(budget, a, first) == 0);
  // What the greedy one gives back goes to those that hold less, until all hold the same.
  const auto held = [](const auto& leases) { return leases.size(); };
  while (held(first) > held(second) + 1) {
    first.pop_back();
    take_all(budget, a, first);
    take_all(budget, b, second);
    take_all(budget, c, third);
    if (!first.empty() && held(first) > held(second)) first.pop_back();
  }
  CHECK(held(second) > 280);
  CHECK(held(third) > 280);
  CHECK(budget.take({kWrites, {}}, 1).has_value());  // the process itself has no such part
}

TEST_CASE("there is room for what can be taken") {
  MemoryBudget budget(1000);
  const MemoryUser a{kWrites, budget.account("a")};
  CHECK(budget.room_for({kReads, {}}) == 1000);
  for (const std::size_t taken : {0u, 300u, 799u}) {
    CAPTURE(taken);
    const auto lease = budget.take(a, taken);
    REQUIRE(lease.has_value());
    CHECK(budget.room_for(a) == 800 - taken);
    CHECK(budget.room_for({kReads, {}}) == 1000 - taken);
    CHECK(budget.take(a, 800 - taken).has_value());
    CHECK(!budget.take(a, 801 - taken).has_value());
  }
  {
    const auto others = budget.take({kReads, {}}, 1000);
    REQUIRE(others.has_value());
    CHECK(budget.room_for(a) == 0);
    CHECK(budget.room_for({kReads, {}}) == 0);
  }
  const MemoryUser b{kWrites, budget.account("b")};
  REQUIRE(a.account.place != b.account.place);
  const auto others = budget.take(b, 800);
  REQUIRE(others.has_value());
  CHECK(budget.room_for(a) == 160);  // what another one holds is not its own
}

TEST_CASE("a lease grows, moves and gives all of it back") {
  MemoryBudget budget(10);
  auto lease = budget.take({kReads, budget.account("a")}, 2);
  REQUIRE(lease.has_value());
  CHECK(lease->grow(3).has_value());
  CHECK(lease->bytes() == 5);
  CHECK(budget.used_bytes(kReads) == 5);
  CHECK(lease->grow(4).error().code == Errc::overloaded);  // 9 of 10 is more than four times 1
  MemoryBudget::Lease moved = std::move(*lease);
  CHECK(budget.used_bytes(kReads) == 5);
  moved = MemoryBudget::Lease();
  CHECK(budget.used_bytes(kReads) == 0);
  std::vector<MemoryBudget::Lease> leases;
  CHECK(take_all(budget, {kReads, budget.account("a")}, leases) == 8);
}

TEST_CASE("threads that take and give back leave nothing behind") {
  MemoryBudget budget(kLimit, MemoryBudget::floors_of(kLimit));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget, t] {
      const MemoryUser user{t % 2 == 0 ? kReads : kWrites, budget.account(std::to_string(t))};
      for (std::size_t i = 0; i < 20'000; ++i) {
        auto lease = budget.take(user, 1 + i % 60);
        if (lease && i % 3 == 0) (void)lease->grow(i % 7);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(budget.used_bytes() == 0);
  std::vector<MemoryBudget::Lease> leases;
  CHECK(take_all(budget, {kReads, {}}, leases) == kLimit / 16 * 10);
}

// On a thread of its own, which has ended when this returns.
template <class Function>
void on_another_thread(Function function) {
  std::thread thread(std::move(function));
  thread.join();
}

TEST_CASE(
    "what a thread keeps in stock is nobody's, and is given back before anything is refused") {
  MemoryBudget budget(64 * limits::kMiB, MemoryBudget::floors_of(64 * limits::kMiB));
  const MemoryUser user{kReads, budget.account("a")};
  on_another_thread([&] {
    CHECK(budget.take(user, 4096).has_value());
    CHECK(budget.take({kWrites, {}}, 4096).has_value());
  });
  CHECK(budget.used_bytes() == 0);
  CHECK(budget.used_bytes(kReads) == 0);
  const auto all = budget.take(
      {kReads, {}}, 64 * limits::kMiB / 16 * 10);  // the part of reads, and the common one
  REQUIRE(all.has_value());
  CHECK(budget.used_bytes() == all->bytes());
  CHECK(budget.take({kReads, {}}, 1).error().code == Errc::overloaded);
  CHECK(budget.take({kWrites, {}}, 64 * limits::kMiB / 16 * 4).has_value());
}

TEST_CASE("leases of all threads together never pass the limit") {
  constexpr std::size_t kBytes = 4 * limits::kMiB;  // the stock of a thread is 4 KiB
  MemoryBudget budget(kBytes);
  std::atomic<std::size_t> held{0}, refused{0};
  std::atomic<bool> passed{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<MemoryBudget::Lease> leases;
      for (std::size_t i = 0; i < 20'000; ++i) {
        const std::size_t bytes = 1 + i % 5000;
        auto lease = budget.take({kReads, {}}, bytes);
        if (lease) {
          if (held.fetch_add(bytes) + bytes > kBytes) passed = true;
          leases.push_back(std::move(*lease));
        } else {
          ++refused;
        }
        if (leases.empty() || (leases.size() < 600 && lease)) continue;
        held.fetch_sub(leases[i % leases.size()].bytes());
        leases.erase(leases.begin() + static_cast<std::ptrdiff_t>(i % leases.size()));
      }
      for (const auto& lease : leases) held.fetch_sub(lease.bytes());
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(!passed);
  CHECK(refused > 0);
  CHECK(budget.used_bytes() == 0);
  CHECK(budget.take({kReads, {}}, kBytes).has_value());
}

TEST_CASE("an account is one over all threads, whichever of them gives back") {
  MemoryBudget budget(limits::kMiB);  // the stock of a thread is 1 KiB
  const MemoryUser user{kReads, budget.account("a")};
  std::vector<MemoryBudget::Lease> leases;
  const auto take = [&] {
    auto lease = budget.take(user, 1024);
    if (lease) leases.push_back(std::move(*lease));
    return lease.has_value();
  };
  const auto take_while_there_is = [&] {
    while (take()) {
    }
  };
  take_while_there_is();
  const std::size_t most = leases.size();
  CHECK(most == 819);  // four fifths of 1024
  on_another_thread([&] {
    CHECK(!take());
    leases.resize(most / 2);
    take_while_there_is();
  });
  CHECK(leases.size() == most);
  CHECK(!take());
  leases.clear();
  take_while_there_is();
  CHECK(leases.size() == most);
}

}  // namespace
}  // namespace penstock
