#include "server/membership/slow_volumes.h"

#include <doctest/doctest.h>

#include "tests/fake/fake_cluster.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr std::uint64_t kEnough = kPaceBytesMin;

// Windows of some volumes, a second each.
struct Paces {
  explicit Paces(std::size_t count) : volumes(count) {}
  // `late`: thousandths of what each volume delivers.
  void window(const std::vector<std::uint64_t>& late, std::uint64_t bytes = 10 * kEnough) {
    for (std::size_t i = 0; i < volumes.size(); ++i) {
      volumes[i].bytes = bytes;
      volumes[i].late = bytes * late[i] / 1000;
    }
    end();
  }
  // One volume alone.
  void window_of(std::size_t index, std::uint64_t bytes, std::uint64_t late) {
    for (VolumePace& volume : volumes) volume.bytes = volume.late = 0;
    volumes[index].bytes = bytes;
    volumes[index].late = late;
    end();
  }
  void end() {
    now += seconds(1);
    judge_paces(volumes, now);
  }
  std::vector<std::size_t> slow() const {
    std::vector<std::size_t> list;
    for (std::size_t i = 0; i < volumes.size(); ++i) {
      if (volumes[i].slow) list.push_back(i);
    }
    return list;
  }
  std::vector<VolumePace> volumes;
  BootTime now{seconds(1000)};
};
using List = std::vector<std::size_t>;

}  // namespace

TEST_CASE("a transfer is late after 40 ms and the time of a slow disk for its bytes") {
  CHECK_FALSE(is_late_transfer(4096, milliseconds(40)));
  CHECK(is_late_transfer(4096, milliseconds(41)));
  CHECK_FALSE(is_late_transfer(16'000'000, milliseconds(1040)));
  CHECK(is_late_transfer(16'000'000, milliseconds(1041)));
  CHECK(is_late_transfer(100'000, milliseconds(100)));  // a link of 1 MB/s
}

TEST_CASE("a volume that is late in three windows in a row is slow, in two it is not") {
  Paces paces(6);
  const std::vector<std::uint64_t> late{0, 10, 600, 100, 0, 0};
  paces.window(late);
  paces.window(late);
  paces.window({0, 0, 0, 0, 0, 0});
  paces.window(late);
  paces.window(late);
  CHECK(paces.slow().empty());
  paces.window(late);
  CHECK(paces.slow() == List{2});
}

TEST_CASE("where all are late, nobody is slow, and who was is not any more") {
  Paces paces(6);
  for (int i = 0; i < 10; ++i) paces.window({900, 1000, 600, 800, 1000, 950});
  CHECK(paces.slow().empty());
  for (int i = 0; i < 3; ++i) paces.window({1000, 0, 0, 0, 0, 0});
  CHECK(paces.slow() == List{0});
  for (int i = 0; i < 5; ++i) paces.window({900, 1000, 600, 800, 1000, 950});
  CHECK(paces.slow().empty());
}

TEST_CASE("somewhat late is not slow: less than half, or less than four times the others") {
  Paces paces(6);
  for (int i = 0; i < 10; ++i) paces.window({490, 0, 0, 0, 0, 0});
  CHECK(paces.slow().empty());
  for (int i = 0; i < 10; ++i) paces.window({700, 200, 200, 180, 190, 200});
  CHECK(paces.slow().empty());
}

TEST_CASE("few bytes tell nothing, and neither do those of two volumes") {
  Paces paces(6);
  for (int i = 0; i < 10; ++i) paces.window({1000, 0, 0, 0, 0, 0}, kEnough - 1);
  CHECK(paces.slow().empty());
  Paces two(2);
  for (int i = 0; i < 10; ++i) two.window({1000, 0});
  CHECK(two.slow().empty());
  CHECK_FALSE(tells_paces(two.volumes));
  CHECK(tells_paces(std::vector<VolumePace>(3, VolumePace{kEnough, 0, false, false, 0, {}})));
}

TEST_CASE("a slow volume is as good as any after five timely windows, or thirty silent seconds") {
  Paces paces(6);
  for (int i = 0; i < 3; ++i) paces.window({0, 0, 0, 0, 0, 1000});
  CHECK(paces.slow() == List{5});
  SUBCASE("a read now and then is timely") {
    for (int i = 0; i < 4; ++i) paces.window_of(5, 1, 0);
    paces.window_of(5, 1, 1);  // not yet
    paces.window_of(5, 1, 0);
    CHECK(paces.slow() == List{5});
    paces.window_of(5, 1, 0);
    CHECK(paces.slow().empty());
  }
  SUBCASE("nobody asks it") {
    for (int i = 0; i < 29; ++i) paces.window_of(0, kEnough, 0);
    CHECK(paces.slow() == List{5});
    paces.window_of(0, kEnough, 0);
    CHECK(paces.slow().empty());
  }
}

TEST_CASE("slow and lost ones are a third at most; who is lost later makes a slow one needed") {
  Paces paces(6);
  for (int i = 0; i < 5; ++i) paces.window({1000, 1000, 1000, 0, 0, 0});
  CHECK(paces.slow() == List{0, 1});
  paces.volumes[3].lost = true;
  paces.window({1000, 1000, 0, 0, 0, 0});
  CHECK(paces.slow() == List{1});
  paces.volumes[4].lost = true;
  paces.window({1000, 1000, 0, 0, 0, 0});
  CHECK(paces.slow().empty());
  for (int i = 0; i < 5; ++i) paces.window({1000, 1000, 0, 0, 0, 0});
  CHECK(paces.slow().empty());
}

TEST_CASE("a process compares volumes once a second, or when there is enough to compare") {
  FakeCluster cluster;
  Membership& membership = cluster.gateway->membership;
  const VolumeId late = cluster.volumes[0]->id();
  const auto second = [&](std::size_t others) {
    membership.report_transfer(late, kEnough, milliseconds(500));
    for (std::size_t i = 1; i <= others; ++i) {
      membership.report_transfer(cluster.volumes[i]->id(), kEnough, milliseconds(5));
    }
    cluster.clock.advance(seconds(1));
    membership.probe_suspects(cluster.io.get_executor());
  };
  SUBCASE("all are read from") {
    for (int i = 0; i < 2; ++i) second(5);
    CHECK_FALSE(membership.slow(late));
    for (int i = 0; i < 2; ++i) second(5);
    CHECK(membership.slow(late));
    CHECK(membership.suspect(late));
    CHECK(membership.unusable() == std::vector<VolumeId>{late});
    // An answer, a commit or a probe says nothing of its pace.
    membership.report(late, true);
    membership.report_durable(late);
    run_all(cluster.io, cluster.clock);
    CHECK(membership.slow(late));
    CHECK(membership.suspicions(late) == 0);
    // It may be read from once a second.
    cluster.clock.advance(seconds(1));
    CHECK(membership.take_turn_to_read(late));
    CHECK_FALSE(membership.take_turn_to_read(late));
    CHECK_FALSE(membership.take_turn_to_read(cluster.volumes[1]->id()));
    cluster.clock.advance(seconds(1));
    CHECK(membership.take_turn_to_read(late));
    // One that does not answer at all is more than slow.
    membership.report_stalled(late);
    CHECK_FALSE(membership.slow(late));
    CHECK_FALSE(membership.take_turn_to_read(late));
    CHECK(membership.suspicions(late) == 1);
    membership.report_durable(late);
    CHECK(membership.slow(late));
    // Nobody reads: it gets its chance.
    for (int i = 0; i < 41; ++i) {
      cluster.clock.advance(seconds(1));
      membership.probe_suspects(cluster.io.get_executor());
    }
    CHECK_FALSE(membership.suspect(late));
  }
  SUBCASE("a few reads a second are gathered into longer windows") {
    for (int i = 0; i < 3; ++i) {
      second(1);
      CHECK_FALSE(membership.slow(late));
      second(2);
    }
    CHECK(membership.slow(late));
  }
}

}  // namespace penstock
