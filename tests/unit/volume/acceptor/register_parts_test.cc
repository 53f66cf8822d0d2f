// What reads of registers see without the acceptor's lock: rows while their keys are written, and
// the gate when it changes.
#include "server/volume/acceptor/register_parts.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/fake/code_of.h"

namespace penstock {
namespace {

VolumeMeta meta_at(Epoch epoch) {
  VolumeMeta meta;
  meta.epochs[GroupId{0}] = GroupEpoch{GroupId{0}, epoch, {}};
  return meta;
}

Round round_at(std::uint64_t epoch) {
  Round round;
  round.epoch = Epoch{epoch};
  round.digest = GroupEpoch{}.short_digest();
  round.bucket_number = BucketNumber{5};
  return round;
}

RegisterKey key_of(std::uint64_t number) {
  RegisterKey key;
  key.bucket = BucketId{1};
  key.key = "key " + std::to_string(number);
  return key;
}

RowPtr row_of(std::uint64_t counter) {
  auto row = std::make_shared<RegisterRow>();
  row->ballot.counter = counter;
  return row;
}

TEST_CASE("what was read is kept only if no write of its key began or ended meanwhile") {
  RegisterParts parts(limits::kMiB, limits::kMiB, 1, RoundGate(meta_at(Epoch{1})));
  const RegisterKey key = key_of(1);
  const auto stamp = [&] { return parts.find(key).stamp; };
  const auto kept = [&] { return parts.find(key).row; };

  const auto before = stamp();
  parts.begin_write(key);
  CHECK(parts.is_busy(key));
  CHECK(parts.pass(round_at(1), key, row_of(1), before).has_value());
  CHECK(kept() == nullptr);
  const auto within = stamp();
  parts.keep(key, row_of(1), within);  // busy
  CHECK(kept() == nullptr);
  parts.end_write(key, row_of(2));
  REQUIRE(kept() != nullptr);
  CHECK(kept()->ballot.counter == 2);
  parts.keep(key, row_of(1), before);
  parts.keep(key, row_of(1), within);
  CHECK(kept()->ballot.counter == 2);

  const auto ended = stamp();
  parts.begin_write(key);
  CHECK(kept() == nullptr);
  const auto given_up = stamp();
  parts.abort_write(key);
  CHECK(!parts.is_busy(key));
  for (const auto read_at : {ended, given_up}) {
    parts.keep(key, row_of(1), read_at);  // the row of a write that was given up may have been read
    CHECK(kept() == nullptr);
  }
  parts.keep(key, row_of(2), stamp());
  REQUIRE(kept() != nullptr);
}

TEST_CASE("of a ballot a volume knows that the row has it, and no more once a write has begun") {
  RegisterParts parts(0, limits::kMiB, 1, RoundGate(meta_at(Epoch{1})));  // no row is kept
  const RegisterKey key = key_of(1);
  const auto stamp = [&] { return parts.find(key).stamp; };
  const auto is_at = [&](std::uint64_t counter) {
    const auto known = parts.holds_ballot(round_at(1), key, row_of(counter)->ballot);
    REQUIRE(known);
    return *known;
  };
  CHECK_FALSE(is_at(1));
  REQUIRE(parts.pass(round_at(1), key, row_of(1), stamp()));
  CHECK(is_at(1));
  CHECK_FALSE(is_at(2));
  const auto before = stamp();
  parts.begin_write(key);
  CHECK_FALSE(is_at(1));
  REQUIRE(parts.pass(round_at(1), key, row_of(1), before));
  parts.keep(key, row_of(1), stamp());  // busy
  CHECK_FALSE(is_at(1));
  parts.end_write(key, row_of(2));
  CHECK(is_at(2));
  REQUIRE(parts.pass(round_at(1), key, row_of(1), before));
  CHECK_FALSE(is_at(1));
  parts.begin_write(key);
  parts.abort_write(key);
  CHECK_FALSE(is_at(2));
  parts.keep(key, row_of(2), stamp());
  CHECK(is_at(2));
  parts.forget(key);
  CHECK_FALSE(is_at(2));
  parts.keep(key, row_of(2), stamp());
  parts.begin_write(key);
  parts.end_write(key, absent_row());
  CHECK_FALSE(is_at(2));
  CHECK_FALSE(is_at(0));
}

TEST_CASE("a new gate, or the end, holds for the keys of all parts") {
  RegisterParts parts(4 * limits::kMiB, limits::kMiB, 1, RoundGate(meta_at(Epoch{1})));
  constexpr std::uint64_t kKeys = 200;
  RoundGate gate(meta_at(Epoch{1}));
  gate.set_epoch({GroupId{0}, Epoch{2}, {}});
  parts.set_gate(gate, std::nullopt);
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    CHECK(code_of(parts.find(round_at(1), key_of(i))) == Errc::stale_epoch);
    CHECK(code_of(parts.pass(round_at(1), key_of(i), nullptr, 0)) == Errc::stale_epoch);
    CHECK(code_of(parts.find(round_at(3), key_of(i))) == Errc::epoch_behind);
    CHECK(parts.find(round_at(2), key_of(i)).has_value());
    CHECK(code_of(parts.holds_ballot(round_at(1), key_of(i), {})) == Errc::stale_epoch);
  }
  gate.raise_fence(BucketId{1}, BucketNumber{5});
  parts.set_gate(gate, std::nullopt);
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    CHECK(code_of(parts.find(round_at(2), key_of(i))) == Errc::stale_bucket);
  }
  parts.set_gate(gate, fail(Errc::unavailable, "closed"));
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    CHECK(code_of(parts.holds_ballot(round_at(2), key_of(i), {})) == Errc::unavailable);
    CHECK(code_of(parts.find(round_at(2), key_of(i))) == Errc::unavailable);
  }
}

TEST_CASE("a gate counts what changes it") {
  RoundGate gate(meta_at(Epoch{1}));
  const auto first = gate.changes();
  gate.raise_fence(BucketId{1}, BucketNumber{1});
  const auto second = gate.changes();
  CHECK(second != first);
  gate.set_epoch({GroupId{0}, Epoch{2}, {}});
  CHECK(gate.changes() != second);
}

TEST_CASE("all parts of the memory are used") {
  RegisterParts parts(limits::kMiB, limits::kMiB, 1, RoundGate(meta_at(Epoch{1})));
  RegisterCache whole(limits::kMiB);
  std::size_t kept = 0;
  constexpr std::uint64_t kKeys = 20'000;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    parts.keep(key_of(i), row_of(i), parts.find(key_of(i)).stamp);
    whole.offer(key_of(i), RegisterKeyHash{}(key_of(i)), row_of(i));
  }
  for (std::uint64_t i = 0; i < kKeys; ++i) kept += parts.find(key_of(i)).row != nullptr ? 1 : 0;
  REQUIRE(whole.size() < kKeys);
  CHECK(kept > whole.size() * 9 / 10);
  CHECK(kept <= whole.size());
}

TEST_CASE("all parts of the memory for ballots are used, and none takes that of another") {
  constexpr std::size_t kBytes = 64 * limits::kKiB;
  RegisterParts parts(4 * limits::kMiB, kBytes, 1, RoundGate(meta_at(Epoch{1})));
  constexpr std::uint64_t kKeys = 30'000;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    parts.keep(key_of(i), row_of(i + 1), parts.find(key_of(i)).stamp);
  }
  std::size_t known = 0;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    known += *parts.holds_ballot(round_at(1), key_of(i), row_of(i + 1)->ballot) ? 1 : 0;
  }
  CHECK(known <= kBytes / 8);
  CHECK(known > kBytes / 8 * 9 / 10);
}

TEST_CASE("in a full memory a commit keeps the row it looked at, a read only one read twice") {
  RegisterParts parts(limits::kMiB, limits::kMiB, 1, RoundGate(meta_at(Epoch{1})));
  constexpr std::uint64_t kKeys = 20'000;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    parts.keep(key_of(i), row_of(i), parts.find(key_of(i)).stamp);
  }
  constexpr std::uint64_t kOther = kKeys + 1;
  const auto is_kept = [&parts] { return parts.find(key_of(kOther)).row != nullptr; };
  const auto read = [&parts] {
    return parts.pass(round_at(1), key_of(kOther), row_of(kOther),
                      parts.find(key_of(kOther)).stamp);
  };
  REQUIRE(read());
  CHECK_FALSE(is_kept());
  REQUIRE(read());
  CHECK(is_kept());
  parts.begin_write(key_of(kOther));
  parts.abort_write(key_of(kOther));
  REQUIRE_FALSE(is_kept());
  parts.keep(key_of(kOther), row_of(kOther), parts.find(key_of(kOther)).stamp);
  CHECK(is_kept());
}

// Rows are numbered by their writes. Readers take a stamp, look what the row is, and bring it.
TEST_CASE("readers on other threads never bring back a row that was replaced") {
  RegisterParts parts(limits::kMiB, limits::kMiB, 1, RoundGate(meta_at(Epoch{1})));
  const RegisterKey key = key_of(1);
  std::atomic<std::uint64_t> stored{0};  // as LevelDB has it
  std::atomic<std::uint64_t> answered{0};
  std::atomic<bool> stop{false}, wrong{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!stop) {
        const std::uint64_t least = answered;
        auto found = parts.find(round_at(1), key);
        RowPtr row = found->row;
        if (row == nullptr) {
          row = row_of(stored);
          if (!parts.pass(round_at(1), key, row, found->stamp)) wrong = true;
        }
        if (row->ballot.counter < least) wrong = true;
        const std::uint64_t newest = answered;
        const auto known = parts.holds_ballot(round_at(1), key, row->ballot);
        if (!known || (*known && row->ballot.counter < newest)) wrong = true;
      }
    });
  }
  for (std::uint64_t number = 1; number <= 20'000; ++number) {
    parts.begin_write(key);
    stored = number;
    parts.end_write(key, row_of(number));
    answered = number;
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(!wrong);
}

}  // namespace
}  // namespace penstock
