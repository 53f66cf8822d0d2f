#include "server/volume/acceptor/ballot_fingerprints.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "penstock/limits.h"

namespace penstock {
namespace {

constexpr std::uint64_t kSeed = 11;

// As good as a key's.
std::size_t hash_of(std::uint64_t number) { return mix_hash(number + 0x9e3779b97f4a7c15); }
Ballot ballot_of(std::uint64_t number) { return {number + 1, 7, number * 3}; }

std::size_t held(const BallotFingerprints& known, std::uint64_t from, std::uint64_t to) {
  std::size_t count = 0;
  for (std::uint64_t i = from; i < to; ++i) count += known.holds(hash_of(i), ballot_of(i)) ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("a ballot is known of the key that it was put for, until that is erased") {
  BallotFingerprints known(limits::kMiB, kSeed);
  CHECK_FALSE(known.holds(hash_of(1), ballot_of(1)));
  known.put(hash_of(1), ballot_of(1));
  known.put(hash_of(2), ballot_of(2));
  CHECK(known.holds(hash_of(1), ballot_of(1)));
  CHECK_FALSE(known.holds(hash_of(1), ballot_of(2)));
  CHECK_FALSE(known.holds(hash_of(2), ballot_of(1)));
  for (const Ballot& other : {Ballot{3, 7, 3}, Ballot{2, 8, 3}, Ballot{2, 7, 4}}) {
    CHECK_FALSE(known.holds(hash_of(1), other));
  }
  known.put(hash_of(1), ballot_of(1));  // twice is once
  CHECK(known.size() == 2);
  known.erase(hash_of(1));
  CHECK_FALSE(known.holds(hash_of(1), ballot_of(1)));
  CHECK(known.holds(hash_of(2), ballot_of(2)));
  known.erase(hash_of(1));
  CHECK(known.size() == 1);
}

TEST_CASE("nothing is known of absent rows, whose ballots are all the same") {
  BallotFingerprints known(limits::kMiB, kSeed);
  known.put(hash_of(1), Ballot{});
  CHECK(known.size() == 0);
  known.put(hash_of(2), ballot_of(2));
  CHECK_FALSE(known.holds(hash_of(1), Ballot{}));
}

TEST_CASE("two rows of keys that share a hash are both known, and go together") {
  BallotFingerprints known(limits::kMiB, kSeed);
  known.put(hash_of(1), ballot_of(1));
  known.put(hash_of(1), ballot_of(2));
  CHECK(known.holds(hash_of(1), ballot_of(1)));
  CHECK(known.holds(hash_of(1), ballot_of(2)));
  known.erase(hash_of(1));
  CHECK_FALSE(known.holds(hash_of(1), ballot_of(1)));
  CHECK_FALSE(known.holds(hash_of(1), ballot_of(2)));
}

TEST_CASE("memory grows with what is known, and nearly all of it is found while there is room") {
  BallotFingerprints known(limits::kMiB, kSeed);
  CHECK(known.bytes() == 0);
  std::uint64_t count = 0;
  for (std::uint64_t more = 10; count < 60'000; more *= 2) {
    for (const std::uint64_t end = count + more; count < end; ++count) {
      known.put(hash_of(count), ballot_of(count));
    }
    CAPTURE(count);
    CHECK(held(known, 0, count) >= count * 95 / 100);
    CHECK(known.bytes() <= count * 64 * 2 / 5 + 128);
    CHECK(known.bytes() <= limits::kMiB);
  }
}

TEST_CASE("beyond its bound it keeps what came last, and most of its memory is used") {
  for (const std::size_t bytes : {100 * limits::kKiB, 130'000 * std::size_t{1}}) {
    BallotFingerprints known(bytes, kSeed);
    constexpr std::uint64_t kKeys = 100'000;
    for (std::uint64_t i = 0; i < kKeys; ++i) known.put(hash_of(i), ballot_of(i));
    CHECK(known.bytes() <= bytes);
    CHECK(known.bytes() > bytes - 64);
    CHECK(known.size() > bytes / 8 * 95 / 100);
    CHECK(known.holds(hash_of(kKeys - 1), ballot_of(kKeys - 1)));
    CHECK(held(known, kKeys - bytes / 32, kKeys) > bytes / 32 * 8 / 10);
  }
}

TEST_CASE("without memory nothing is known") {
  for (const std::size_t bytes : {0, 63}) {
    BallotFingerprints known(bytes, kSeed);
    known.put(hash_of(1), ballot_of(1));
    CHECK_FALSE(known.holds(hash_of(1), ballot_of(1)));
    known.erase(hash_of(1));
    CHECK(known.size() == 0);
  }
}

// 8 * 10^7 comparisons: with 28 bits of a ballot's hash some would pass.
TEST_CASE("no other ballot of a key passes for one that is known") {
  BallotFingerprints known(limits::kMiB, kSeed);
  constexpr std::uint64_t kOthers = 10'000'000;
  for (std::uint64_t i = 0; i < 8; ++i) known.put(hash_of(1), ballot_of(kOthers + i));
  REQUIRE(known.size() == 8);
  std::size_t wrong = 0;
  for (std::uint64_t i = 0; i < kOthers; ++i)
    wrong += known.holds(hash_of(1), ballot_of(i)) ? 1 : 0;
  CHECK(wrong == 0);
}

// Against a plain map of what was put and not erased: never more than that is known.
TEST_CASE("whatever is put and erased in turn, nothing is known that is not so") {
  BallotFingerprints known(16 * limits::kKiB, kSeed);
  std::mt19937_64 random(7);
  constexpr std::uint64_t kKeys = 3'000;
  std::vector<std::uint64_t> current(kKeys, 0);
  std::uint64_t next = 1;
  std::size_t found = 0, wrong = 0;
  for (int step = 0; step < 200'000; ++step) {
    const std::uint64_t key = random() % kKeys;
    if (random() % 4 == 0) {
      known.erase(hash_of(key));
      current[key] = next++;
      if (random() % 2 == 0) known.put(hash_of(key), ballot_of(current[key]));
    } else {
      found += known.holds(hash_of(key), ballot_of(current[key])) ? 1 : 0;
      const std::uint64_t other = random() % next;
      if (other != current[key]) wrong += known.holds(hash_of(key), ballot_of(other)) ? 1 : 0;
    }
  }
  CHECK(wrong == 0);
  CHECK(found > 20'000);
}

}  // namespace penstock
