#include "server/cluster/membership.h"

#include <doctest/doctest.h>

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
  membership.report(kFirst, true);
  membership.report(kFirst, false);
  CHECK(!membership.suspect(kFirst));
}

TEST_CASE("a suspect is tried again once per interval") {
  RegisterCluster cluster;
  Membership& membership = *cluster.processes[0].membership;
  CHECK(!membership.probe_due(kFirst));
  membership.report_stalled(kFirst);
  CHECK(!membership.probe_due(kFirst));
  cluster.clock.advance(limits::kProbeEvery);
  CHECK(membership.probe_due(kFirst));
  CHECK(!membership.probe_due(kFirst));
  cluster.clock.advance(limits::kProbeEvery);
  CHECK(membership.probe_due(kFirst));
}

TEST_CASE("closed, missing, full, suspect and unknown volumes take no fragments") {
  RegisterCluster cluster;
  Membership& membership = *cluster.processes[0].membership;
  cluster.acceptors[0]->state = VolumeStatus::State::closed;
  cluster.acceptors[1]->state = VolumeStatus::State::missing;
  cluster.acceptors[2]->full = true;
  membership.report_stalled(VolumeId{103});
  CHECK(membership.usable() == std::vector{VolumeId{104}});
  const std::vector<VolumeId> others{kFirst, VolumeId{101}, VolumeId{102}, VolumeId{103}};
  CHECK(membership.unusable() == others);
  CHECK(membership.suspect(kFirst));
  CHECK(!membership.suspect(VolumeId{102}));  // full, but it answers
  CHECK(membership.suspect(VolumeId{999}));
  CHECK(membership.volume(VolumeId{999}) == nullptr);
  CHECK(membership.volume(kFirst) == cluster.acceptors[0]);
  CHECK(membership.volumes().size() == 5);
}

}  // namespace penstock
