#include "server/index/group_scan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/fake/fake_cluster.h"

namespace penstock {
namespace {

// The replicas of one group, one key on all of them, and a scan of all its rows.
struct ScannedGroup {
  FakeCluster cluster;
  std::shared_ptr<const Bucket> bucket = cluster.make_bucket("b", 1);
  std::vector<FakeVolume*> volumes;  // by replica
  GroupScan scan;

  ScannedGroup() {
    REQUIRE(cluster.run(cluster.gateway->objects.put(*bucket, "key", ObjectRecord{}, nullptr,
                                                     Condition{}, cluster.soon())));
    cluster.settle_down();
    scan.share = groups_of_bucket(*cluster.map, bucket->record.id, 1).front();
    scan.request.bucket = bucket->record.id;
    scan.request.round.bucket_number = bucket->record.number;
    for (const VolumeId id : cluster.map->groups[scan.share.group.value].replicas) {
      for (const auto& volume : cluster.volumes) {
        if (volume->id() == id) volumes.push_back(volume.get());
      }
    }
    REQUIRE(volumes.size() == 5);
  }
  Result<MergeInput> run(Membership& membership) {
    return cluster.run(scan_group(membership, cluster.clock, scan, cluster.soon()));
  }
  Result<MergeInput> run() { return run(cluster.gateway->membership); }
  static std::size_t replies(const MergeInput& input) {
    return static_cast<std::size_t>(std::count_if(input.replies.begin(), input.replies.end(),
                                                  [](const auto& each) { return !!each; }));
  }
};

}  // namespace

TEST_CASE("a scan waits for a majority though others have failed before") {
  for (const bool wide : {false, true}) {
    CAPTURE(wide);
    ScannedGroup group;
    group.scan.wide = wide;
    for (const std::size_t i : {1, 2}) group.volumes[i]->fail_scans = true;
    for (const std::size_t i : {3, 4}) group.volumes[i]->scan_delay = std::chrono::milliseconds(80);
    const auto input = group.run();
    REQUIRE(input.has_value());
    CHECK(ScannedGroup::replies(*input) == 3);
    for (const std::size_t i : {0, 3, 4}) {
      REQUIRE(input->replies[i].has_value());
      CHECK(input->replies[i]->rows.size() == 1);
    }
  }
}

TEST_CASE("a replica that is silent while the others answer is not waited for") {
  for (const bool fenced : {false, true}) {
    CAPTURE(fenced);
    ScannedGroup group;
    if (fenced) {
      group.scan.request.fence = BucketNumber{1};
      group.scan.request.round.pass_fence = true;
    }
    group.volumes[0]->scan_delay = std::chrono::hours(1);  // it would give summaries
    const BootTime before = group.cluster.clock.boot();
    const auto input = group.run();
    REQUIRE(input.has_value());
    CHECK(ScannedGroup::replies(*input) >= 3);
    CHECK(!input->replies[0]);
    CHECK(group.cluster.clock.boot() - before <= limits::kNoProgress + std::chrono::seconds(1));
    CHECK(group.cluster.gateway->membership.suspect(group.volumes[0]->id()));
  }
}

TEST_CASE("a scan ends though a majority never answers") {
  ScannedGroup group;
  for (const std::size_t i : {0, 2, 4}) group.volumes[i]->scan_delay = std::chrono::hours(1);
  const BootTime before = group.cluster.clock.boot();
  const auto input = group.run();
  REQUIRE(input.has_error());
  CHECK(input.error().code == Errc::unavailable);
  CHECK(group.cluster.clock.boot() - before <= limits::kScanCall + std::chrono::seconds(1));
}

TEST_CASE("a volume that does not answer scans becomes suspect and is left out, until it answers") {
  ScannedGroup group;
  FakeVolume& silent = *group.volumes[1];
  const auto suspect = [&] { return group.cluster.gateway->membership.suspect(silent.id()); };
  for (const Errc code : {Errc::unavailable, Errc::timeout}) {
    silent.fail_scans = true;
    silent.scan_error = code;
    for (int i = 0; i < 2; ++i) {
      CHECK_FALSE(suspect());
      REQUIRE(group.run().has_value());
    }
    CHECK(suspect());
    silent.counters.scans = 0;
    REQUIRE(group.run().has_value());
    CHECK(silent.counters.scans == 0);
    silent.fail_scans = false;
    group.scan.wide = true;
    REQUIRE(group.run().has_value());
    CHECK_FALSE(suspect());
    group.scan.wide = false;
  }
  // An answer that says no is an answer.
  silent.fail_scans = true;
  silent.scan_error = Errc::overloaded;
  for (int i = 0; i < 3; ++i) REQUIRE(group.run().has_value());
  CHECK_FALSE(suspect());
}

TEST_CASE("a scan below a majority tells whether a newer map may help") {
  struct Row {
    Errc code;
    Errc told;
  };
  for (const Row& row :
       {Row{Errc::unavailable, Errc::unavailable}, Row{Errc::io, Errc::unavailable},
        Row{Errc::stale_epoch, Errc::stale_epoch}, Row{Errc::epoch_behind, Errc::stale_epoch},
        Row{Errc::stale_bucket, Errc::stale_bucket}}) {
    CAPTURE(to_string(row.code));
    ScannedGroup group;
    group.volumes[0]->scan_error = row.code;
    for (const std::size_t i : {0, 1, 2}) group.volumes[i]->fail_scans = true;
    const auto input = group.run();
    REQUIRE(input.has_error());
    CHECK(input.error().code == row.told);
  }
}

TEST_CASE("replicas out of reach are done without, down to a majority") {
  ScannedGroup group;
  for (const std::size_t known : {5, 3, 2, 0}) {
    CAPTURE(known);
    std::vector<std::shared_ptr<VolumeClient>> clients;
    for (const auto& volume : group.cluster.volumes) {
      const auto at = std::find(group.volumes.begin(), group.volumes.end(), volume.get());
      const auto replica = static_cast<std::size_t>(at - group.volumes.begin());
      if (replica >= group.volumes.size() - known && at != group.volumes.end()) {
        clients.push_back(volume);
      }
    }
    Membership membership(group.cluster.map, Ring::build(*group.cluster.map).value(), clients,
                          group.cluster.clock);
    const auto input = group.run(membership);
    REQUIRE(input.has_value() == (known >= 3));
    if (input) {
      CHECK(ScannedGroup::replies(*input) == 3);
    } else {
      CHECK(input.error().code == Errc::unavailable);
    }
    group.cluster.settle_down();
  }
}

}  // namespace penstock
