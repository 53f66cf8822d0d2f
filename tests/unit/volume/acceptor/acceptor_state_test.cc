#include "server/volume/acceptor/acceptor_state.h"

#include <doctest/doctest.h>

#include "tests/fake/code_of.h"

namespace penstock {
namespace {

constexpr std::uint64_t kSecond = 1'000'000;
constexpr std::uint64_t kKey = 42;
const WallTime kNow{Duration(1'000 * static_cast<std::int64_t>(kSecond))};
constexpr std::uint64_t kNowUs = 1'000 * kSecond;

Ballot ballot(std::uint64_t counter, std::uint64_t process = 1) { return {counter, process, 1}; }

// A volume that has been up for a while: its ceiling is above the clock.
AcceptorState running() {
  AcceptorState state{VolumeMeta{}};
  state.raise_ceiling(kNowUs + 10 * kSecond);
  return state;
}

TEST_CASE("a promise is given above all that was promised and accepted, and again to its holder") {
  AcceptorState state = running();
  CHECK(state.prepare(kKey, ballot(kNowUs), false, {}, kNow) == Verdict::pass);
  CHECK(state.prepare(kKey, ballot(kNowUs), false, {}, kNow) == Verdict::pass);
  CHECK(state.prepare(kKey, ballot(kNowUs - 1), false, {}, kNow) == Verdict::refuse);
  CHECK(state.prepare(kKey, ballot(kNowUs + 5), false, ballot(kNowUs + 5), kNow) ==
        Verdict::refuse);
  CHECK(state.prepare(kKey, ballot(kNowUs + 4), false, ballot(kNowUs + 5), kNow) ==
        Verdict::refuse);
  CHECK(state.prepare(kKey + 1, ballot(kNowUs - 1), false, {}, kNow) == Verdict::pass);
}

TEST_CASE("an accept passes at or above the promise and only repeats its own ballot") {
  AcceptorState state = running();
  REQUIRE(state.prepare(kKey, ballot(kNowUs), false, {}, kNow) == Verdict::pass);
  CHECK(state.accept(kKey, ballot(kNowUs - 1), {}) == Verdict::refuse);
  CHECK(state.accept(kKey, ballot(kNowUs), {}) == Verdict::pass);
  CHECK(state.accept(kKey, ballot(kNowUs), ballot(kNowUs)) == Verdict::repeat);
  CHECK(state.accept(kKey, ballot(kNowUs - 1), ballot(kNowUs)) == Verdict::refuse);
  CHECK(state.accept(kKey, ballot(kNowUs + 1), ballot(kNowUs)) == Verdict::pass);
  CHECK(state.prepare(kKey, ballot(kNowUs), false, ballot(kNowUs), kNow) == Verdict::refuse);
}

TEST_CASE("a refused prepare learns the smallest counter that would pass") {
  AcceptorState state = running();
  REQUIRE(state.prepare(kKey, ballot(kNowUs + 7), false, {}, kNow) == Verdict::pass);
  const Ballot demand = state.demand(kKey, ballot(kNowUs));
  CHECK(demand.counter == kNowUs + 8);
  CHECK(state.prepare(kKey, demand, false, ballot(kNowUs), kNow) == Verdict::pass);
}

TEST_CASE("above the ceiling a promise waits for the ceiling") {
  AcceptorState state{VolumeMeta{}};
  CHECK(state.prepare(kKey, ballot(kNowUs), false, {}, kNow) == Verdict::raise_ceiling);
  state.raise_ceiling(AcceptorState::ceiling_for(kNowUs));
  CHECK(state.ceiling() == kNowUs + 10 * kSecond);
  CHECK(state.prepare(kKey, ballot(kNowUs), false, {}, kNow) == Verdict::pass);
  CHECK_FALSE(state.ceiling_is_near(kNowUs + 4 * kSecond));
  CHECK(state.ceiling_is_near(kNowUs + 6 * kSecond));
}

TEST_CASE("after a restart nothing at or below the stored ceiling passes") {
  VolumeMeta meta;
  meta.ceiling = kNowUs;
  AcceptorState state(meta);
  CHECK(state.prepare(kKey, ballot(kNowUs), true, {}, kNow) == Verdict::refuse);
  CHECK(state.accept(kKey, ballot(kNowUs), {}) == Verdict::refuse);
  CHECK(state.demand(kKey, {}).counter == kNowUs + 1);
  CHECK(state.accept(kKey, ballot(kNowUs + 1), {}) == Verdict::pass);
}

TEST_CASE("a dropped ballot bars everything at or below its counter") {
  AcceptorState state = running();
  state.raise_horizon(kNowUs);
  CHECK(state.prepare(kKey, ballot(kNowUs, 9), false, {}, kNow) == Verdict::refuse);
  CHECK(state.accept(kKey, ballot(kNowUs, 9), {}) == Verdict::refuse);
  CHECK(state.prepare(kKey, ballot(kNowUs + 1), false, {}, kNow) == Verdict::pass);
}

TEST_CASE("a prepare far in the future is refused unless it follows a majority") {
  const std::uint64_t bound = kNowUs + 10 * kSecond + 300 * kSecond;  // ceiling + 5 min
  AcceptorState state = running();
  CHECK(state.prepare(kKey, ballot(bound + 1), false, {}, kNow) == Verdict::refuse_future);
  CHECK(state.prepare(kKey, ballot(bound), false, {}, kNow) == Verdict::raise_ceiling);
  CHECK(state.prepare(kKey, ballot(bound + 1), true, {}, kNow) == Verdict::raise_ceiling);
  CHECK(state.accept(kKey, ballot(bound + 1), {}) == Verdict::pass);
}

TEST_CASE("a counter at the end of its range neither wraps nor passes") {
  AcceptorState state = running();
  const Ballot last = ballot(~std::uint64_t{0});
  CHECK(state.prepare(kKey, last, false, {}, kNow) == Verdict::refuse_future);
  CHECK(AcceptorState::ceiling_for(last.counter) == last.counter);
  CHECK(state.demand(kKey, last).counter == last.counter);
}

TEST_CASE("promises that made room still bind") {
  AcceptorState state = running();
  constexpr std::uint64_t kKeys = 20'000;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const auto verdict = state.prepare(key, ballot(kNowUs + key), false, {}, kNow);
    REQUIRE(verdict == Verdict::pass);
  }
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const auto verdict = state.accept(key, ballot(kNowUs + key - 1), {});
    REQUIRE(verdict == Verdict::refuse);
  }
}

TEST_CASE("an accept settles the promise it covers, and no higher one") {
  AcceptorState state{VolumeMeta{}, 1};  // all keys share their room
  state.raise_ceiling(kNowUs + 10 * kSecond);
  for (std::uint64_t key = 0; key < 100; ++key) {
    const Ballot at = ballot(kNowUs + 1000 + key);
    REQUIRE(state.prepare(key, at, false, {}, kNow) == Verdict::pass);
    REQUIRE(state.accept(key, at, {}) == Verdict::pass);
    state.accepted(key, at);
  }
  CHECK(state.prepare(1000, ballot(kNowUs), false, {}, kNow) == Verdict::pass);
  const Ballot low = ballot(kNowUs + 10);
  const Ballot high = ballot(kNowUs + 30);
  REQUIRE(state.accept(2000, low, {}) == Verdict::pass);
  REQUIRE(state.prepare(2000, high, false, {}, kNow) == Verdict::pass);
  state.accepted(2000, low);  // its write took longer than the prepare
  CHECK(state.accept(2000, ballot(kNowUs + 20), low) == Verdict::refuse);
  CHECK(state.accept(2000, high, low) == Verdict::pass);
}

TEST_CASE("a row that cannot be read is replaced only from above all that was ever accepted") {
  AcceptorState state = running();
  REQUIRE(state.accept(kKey + 1, ballot(kNowUs), {}) == Verdict::pass);
  CHECK(state.accept_blind(kKey, ballot(kNowUs, 99)) == Verdict::refuse);
  CHECK(state.accept_blind(kKey, ballot(kNowUs + 1)) == Verdict::pass);
}

TEST_CASE("a round passes in its own epoch only") {
  AcceptorState state = running();
  Round round;
  round.group = GroupId{2};
  round.epoch = Epoch{5};
  round.bucket_number = BucketNumber{1};
  CHECK(code_of(state.gate().check(round, BucketId{1})) == Errc::epoch_behind);
  state.gate().set_epoch({GroupId{2}, Epoch{5}, {}});
  CHECK(state.gate().check(round, BucketId{1}));
  for (const std::uint64_t other : {0, 4, 6}) {
    round.epoch = Epoch{other};
    const Errc expected = other > 5 ? Errc::epoch_behind : Errc::stale_epoch;
    CHECK(code_of(state.gate().check(round, BucketId{1})) == expected);
  }
  round.group = GroupId{1};
  round.epoch = Epoch{0};
  CHECK(code_of(state.gate().check(round, BucketId{1})) == Errc::stale_epoch);
}

TEST_CASE("a round of the same epoch with other members is refused") {
  AcceptorState state = running();
  GroupEpoch epoch{GroupId{2}, Epoch{5}, {}};
  epoch.digest[0] = 7;
  state.gate().set_epoch(epoch);
  Round round;
  round.group = GroupId{2};
  round.epoch = Epoch{5};
  round.bucket_number = BucketNumber{1};
  CHECK(code_of(state.gate().check(round, BucketId{1})) == Errc::stale_epoch);
  round.digest = epoch.short_digest();
  CHECK(round.digest == 7);
  CHECK(state.gate().check(round, BucketId{1}));
}

TEST_CASE("an epoch never goes back and never changes its digest") {
  AcceptorState state = running();
  GroupEpoch epoch{GroupId{2}, Epoch{5}, {}};
  state.gate().set_epoch(epoch);
  CHECK(state.gate().check_epochs({epoch})->empty());
  CHECK(state.gate().check_epochs({{GroupId{2}, Epoch{6}, {}}})->size() == 1);
  CHECK(code_of(state.gate().check_epochs({{GroupId{2}, Epoch{4}, {}}})) == Errc::stale_epoch);
  epoch.digest[0] = 1;
  CHECK(code_of(state.gate().check_epochs({epoch})) == Errc::stale_epoch);
  CHECK(code_of(state.gate().check_epochs({{GroupId{kGroupsMax}, Epoch{1}, {}}})) == Errc::invalid);
  CHECK(code_of(state.gate().check_epochs({{GroupId{1}, Epoch{0}, {}}})) == Errc::invalid);
  CHECK(state.gate().check_epochs({{GroupId{kGroupsMax - 1}, Epoch{1}, {}}})->size() == 1);
}

TEST_CASE("a fence stops its bucket's numbers up to it, and lets its own rounds pass") {
  AcceptorState state = running();
  state.gate().set_epoch({GroupId{0}, Epoch{1}, {}});
  state.gate().raise_fence(BucketId{7}, BucketNumber{3});
  state.gate().raise_fence(BucketId{7}, BucketNumber{2});
  Round round;
  round.epoch = Epoch{1};
  for (const std::uint64_t number : {1, 2, 3, 4}) {
    round.bucket_number = BucketNumber{number};
    round.pass_fence = false;
    CHECK(bool(state.gate().check(round, BucketId{7})) == (number > 3));
    CHECK(state.gate().check(round, BucketId{8}));
    round.pass_fence = true;
    CHECK(state.gate().check(round, BucketId{7}));
  }
}

}  // namespace
}  // namespace penstock
