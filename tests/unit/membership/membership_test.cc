#include "server/membership/membership.h"

#include <doctest/doctest.h>

#include "penstock/caught.h"
#include "penstock/log.h"
#include "tests/fake/fake_cluster.h"
#include "tests/fake/register_cluster.h"

namespace penstock {
namespace {
const VolumeId kFirst{100};
}

TEST_CASE("two failures in a row make a volume suspect, one does not, and success clears it") {
  RegisterCluster cluster;
  Membership& membership = *cluster.processes[0].membership;
  membership.report(kFirst, false);
  CHECK(!membership.suspect(kFirst));
  membership.report(kFirst, true);
  membership.report(kFirst, false);
  CHECK(!membership.suspect(kFirst));
  membership.report(kFirst, false);
  CHECK(membership.suspect(kFirst));
  membership.report(kFirst, true);
  CHECK(!membership.suspect(kFirst));
}

TEST_CASE("one call without progress makes a volume suspect") {
  RegisterCluster cluster;
  Membership& membership = *cluster.processes[0].membership;
  membership.report_stalled(kFirst);
  CHECK(membership.suspect(kFirst));
  membership.report_durable(kFirst);
  CHECK(!membership.suspect(kFirst));
  membership.report_fragment(kFirst, false);
  CHECK(!membership.suspect(kFirst));
}

TEST_CASE("what memory can answer does not clear what was said of the disk") {
  RegisterCluster cluster;
  Membership& membership = *cluster.processes[0].membership;
  membership.report_stalled(kFirst);
  membership.report(kFirst, true);
  membership.report_fragment(kFirst, true);
  CHECK(membership.suspect(kFirst));
  membership.report(kFirst, false);
  membership.report(kFirst, false);
  membership.report_durable(kFirst);
  CHECK(membership.suspect(kFirst));  // its registers are in trouble, too
  membership.report(kFirst, true);
  CHECK(!membership.suspect(kFirst));
}

TEST_CASE("a suspect is tried again once per interval") {
  FakeCluster cluster;
  FakeVolume& volume = *cluster.volumes.front();
  Membership& membership = cluster.gateway->membership;
  volume.fragments.faults.stall_commit = true;  // probes do not end, so that it stays one
  const auto probes = [&] {
    for (int look = 0; look < 2; ++look) membership.probe_suspects(cluster.io.get_executor());
    cluster.io.restart();
    cluster.io.poll();
    return volume.fragments.counters.probes;
  };
  CHECK(probes() == 0);
  membership.report_stalled(volume.id());
  CHECK(probes() == 0);
  cluster.clock.advance(limits::kProbeEvery);
  CHECK(probes() == 1);
  CHECK(probes() == 1);
  cluster.clock.advance(limits::kProbeEvery);
  CHECK(probes() == 2);
  volume.fragments.release();
}

TEST_CASE("a probe that throws is one that failed") {
  set_log_sink([](LogLevel, std::string_view) {});
  FakeCluster cluster;
  FakeVolume& volume = *cluster.volumes.front();
  Membership& membership = cluster.gateway->membership;
  const auto probe = [&] {
    cluster.clock.advance(limits::kProbeEvery);
    membership.probe_suspects(cluster.io.get_executor());
    cluster.settle_down();
  };
  membership.report_stalled(volume.id());
  const std::uint64_t before = exceptions_caught();
  volume.fragments.faults.throw_probe = true;
  probe();
  CHECK(exceptions_caught() == before + 1);
  CHECK(membership.suspect(volume.id()));
  volume.fragments.faults.throw_probe = false;
  probe();
  CHECK(!membership.suspect(volume.id()));
  // It clears what was reported of registers, too, and the next failure is a first one again.
  for (int i = 0; i < 2; ++i) membership.report(volume.id(), false);
  CHECK(membership.suspect(volume.id()));
  probe();
  CHECK(!membership.suspect(volume.id()));
  membership.report(volume.id(), false);
  membership.report_fragment(volume.id(), false);
  CHECK(!membership.suspect(volume.id()));
  set_log_sink(nullptr);
}

TEST_CASE("closed, missing, full, suspect and unknown volumes take no fragments") {
  RegisterCluster cluster;
  Membership& membership = *cluster.processes[0].membership;
  cluster.acceptors[0]->state = VolumeStatus::State::closed;
  cluster.acceptors[1]->state = VolumeStatus::State::missing;
  cluster.acceptors[2]->full = true;
  membership.report_stalled(VolumeId{103});
  const std::vector<VolumeId> others{kFirst, VolumeId{101}, VolumeId{102}, VolumeId{103}};
  CHECK(membership.unusable() == others);
  CHECK(membership.suspect(kFirst));
  CHECK(!membership.suspect(VolumeId{102}));  // full, but it answers
  CHECK(membership.suspect(VolumeId{999}));
  CHECK(membership.volume(VolumeId{999}) == nullptr);
  CHECK(membership.volume(kFirst) == cluster.acceptors[0]);
  CHECK(membership.volumes().size() == 5);
}

TEST_CASE("a map that is not newer, or of another cluster, is not adopted") {
  RegisterCluster cluster;
  Membership& membership = *cluster.processes[0].membership;
  ClusterMap third = *cluster.map;
  third.epoch = Epoch{3};
  REQUIRE(membership.adopt(std::make_shared<const ClusterMap>(third)).value());
  for (const std::uint64_t epoch : {1, 2, 3}) {
    CAPTURE(epoch);
    ClusterMap other = *cluster.map;
    other.epoch = Epoch{epoch};
    CHECK_FALSE(membership.adopt(std::make_shared<const ClusterMap>(other)).value());
    CHECK(membership.map()->epoch == Epoch{3});
  }
  ClusterMap foreign = *cluster.map;
  foreign.epoch = Epoch{4};
  foreign.cluster = ClusterId{9, 9};
  CHECK_FALSE(membership.adopt(std::make_shared<const ClusterMap>(foreign)).value());
  CHECK(membership.map()->epoch == Epoch{3});
}

TEST_CASE("another map of the same epoch is adopted only if majorities are known to hold it") {
  FakeCluster cluster;
  Membership& membership = cluster.gateway->membership;
  ClusterMap next = *membership.map();
  next.volumes[0].zone = "elsewhere";
  const auto parsed = ClusterMap::parse(next.to_json());
  REQUIRE(parsed);
  const auto other = std::make_shared<const ClusterMap>(*parsed);
  REQUIRE(other->digest != membership.map()->digest);
  CHECK_FALSE(membership.adopt(other).value());
  CHECK(membership.adopt(other, SameEpoch::replaced).value());
  CHECK(membership.map() == other);
  CHECK_FALSE(membership.adopt(other, SameEpoch::replaced).value());
}

TEST_CASE("what is known of a volume outlives a change of the map; an unknown one is left alone") {
  RegisterCluster cluster;
  Membership& membership = *cluster.processes[0].membership;
  const VolumeId unknown{999};
  membership.report(unknown, false);
  membership.report(unknown, true);
  membership.report_stalled(unknown);
  CHECK(!membership.stays(unknown));
  CHECK(membership.stays(kFirst));
  membership.report_stalled(kFirst);
  ClusterMap next = *cluster.map;
  next.epoch = Epoch{2};
  REQUIRE(membership.adopt(std::make_shared<const ClusterMap>(next)).value());
  CHECK(membership.suspect(kFirst));
  CHECK(membership.volume(kFirst) == cluster.acceptors[0]);
}

}  // namespace penstock
