// What a warm request touches that requests of other threads touch as well.
#include "tests/bench/shared_steps.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "gateway/auth/credentials.h"
#include "penstock/assert.h"
#include "penstock/buffer.h"
#include "penstock/memory_budget.h"
#include "penstock/metrics.h"
#include "server/volume/acceptor/register_parts.h"
#include "server/volume/rows/read_gate.h"

namespace penstock {
namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::uint64_t kKeys = 1 << 14;

void add_yardsticks(std::vector<SharedStep>& steps) {
  auto counter = std::make_shared<std::atomic<std::uint64_t>>(0);
  steps.push_back({"one counter", [counter](std::uint64_t) { counter->fetch_add(1); }});
  struct Guarded {
    std::mutex mutex;
    std::uint64_t number = 0;
  };
  auto guarded = std::make_shared<Guarded>();
  steps.push_back({"one mutex", [guarded](std::uint64_t) {
                     const std::lock_guard lock(guarded->mutex);
                     ++guarded->number;
                   }});
}

void add_memory(std::vector<SharedStep>& steps) {
  auto budget = std::make_shared<MemoryBudget>(128 * kMiB, MemoryBudget::floors_of(128 * kMiB));
  const MemoryUser user{MemoryUse::reads, budget->account("one")};
  steps.push_back({"lease of 4 KiB", [budget, user](std::uint64_t) {
                     PENSTOCK_ASSERT(budget->take(user, 4096).has_value());
                   }});
  auto pool = std::make_shared<BufferPool>(32 * kMiB);
  steps.push_back({"buffer of 16 KiB", [pool](std::uint64_t) {
                     PENSTOCK_ASSERT(pool->get(16 << 10).data() != nullptr);
                   }});
}

void add_account(std::vector<SharedStep>& steps) {
  Account one;
  one.access_key = "AKIDMICRO";
  one.secret_key = "a-secret-key-of-no-account";
  auto store = std::make_shared<CredentialStore>(CredentialStore::make({one}).value());
  steps.push_back({"account", [store](std::uint64_t) {
                     PENSTOCK_ASSERT(store->find("AKIDMICRO") != nullptr);
                   }});
}

RegisterKey key_of(std::uint64_t number) {
  RegisterKey key;
  key.bucket = BucketId{1};
  key.key = "shards/" + std::to_string(number);
  return key;
}

// The rows of one volume, and their ballots; a read looks at the row of one and the ballots of two.
void add_registers(std::vector<SharedStep>& steps) {
  struct Volume {
    static VolumeMeta meta() {
      VolumeMeta made;
      made.epochs[GroupId{0}] = GroupEpoch{GroupId{0}, Epoch{1}, {}};
      return made;
    }
    RegisterParts parts{16 * kMiB, kMiB, 1, RoundGate(meta())};
    std::vector<RegisterKey> keys;
    Round round;
  };
  auto volume = std::make_shared<Volume>();
  volume->round.epoch = Epoch{1};
  volume->round.digest = GroupEpoch{}.short_digest();
  volume->round.pass_fence = true;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    volume->keys.push_back(key_of(i));
    volume->parts.begin_write(volume->keys.back());
    auto row = std::make_shared<RegisterRow>();
    row->ballot.counter = i + 1;
    volume->parts.end_write(volume->keys.back(), std::move(row));
  }
  steps.push_back({"cached row", [volume](std::uint64_t number) {
                     const RegisterKey& key = volume->keys[mix_hash(number) % kKeys];
                     PENSTOCK_ASSERT(volume->parts.find(volume->round, key)->row != nullptr);
                   }});
  steps.push_back({"known ballot", [volume](std::uint64_t number) {
                     const std::uint64_t index = mix_hash(number) % kKeys;
                     const Ballot ballot{index + 1, 0, 0};
                     const auto& key = volume->keys[index];
                     PENSTOCK_ASSERT(
                         volume->parts.holds_ballot(volume->round, key, ballot).has_value());
                   }});
  auto gate = std::make_shared<ReadGate>();
  steps.push_back(
      {"gate of LevelDB", [gate](std::uint64_t) { PENSTOCK_ASSERT(bool(ReadGate::Pass(*gate))); }});
}

void add_metrics(std::vector<SharedStep>& steps) {
  auto metrics =
      std::make_shared<Metrics>(std::vector<std::string>{"GetObject"}, std::vector<std::string>{});
  Metrics::Outcome outcome;
  outcome.duration = std::chrono::microseconds(100);
  steps.push_back({"metrics", [metrics, outcome](std::uint64_t) { metrics->record(0, outcome); }});
}

}  // namespace

std::vector<SharedStep> all_shared_steps() {
  std::vector<SharedStep> steps;
  add_yardsticks(steps);
  add_memory(steps);
  add_account(steps);
  add_registers(steps);
  add_metrics(steps);
  return steps;
}

}  // namespace penstock
