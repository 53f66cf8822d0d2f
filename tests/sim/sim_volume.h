// One volume of the simulated world: the product's own Volume on a simulated disk, with a clock of
// its own; it crashes, loses what was not synced, comes back, or is lost for good.
#pragma once
#include <memory>
#include <string>

#include "placement/cluster_map.h"
#include "server/volume/volume.h"
#include "tests/fake/fake_disk.h"
#include "tests/sim/sim_network.h"

namespace penstock::sim {

class SimVolume final : public VolumeHost {
 public:
  SimVolume(SimTime& time, std::uint64_t seed, MapVolume entry,
            std::shared_ptr<const ClusterMap> map);
  ~SimVolume() override;

  // Makes it a volume of the cluster. Once.
  Result<> format();
  // Opens it as a process start does; what is damaged stays down.
  Result<> start();
  // The process dies and the machine loses power: unsynced data and names are kept, dropped or torn
  // by the seed.
  void crash();
  // The process dies alone: what the kernel has is kept.
  void kill();
  // The disk is gone.
  void lose();
  // Every call of the disk fails from now on, and after each restart.
  void fail_from_now_on();

  VolumeId id() const override { return entry_.id; }
  std::shared_ptr<VolumeClient> current() const override { return volume_; }
  std::shared_ptr<Volume> opened() const { return volume_; }
  bool lost() const { return lost_; }
  bool running() const { return volume_ != nullptr; }
  FakeDisk& disk() { return disk_; }
  SimClock& clock() override { return clock_; }
  SimRandom& random() { return random_; }

 private:
  void stop();
  SimTime& time_;
  MapVolume entry_;
  std::shared_ptr<const ClusterMap> map_;
  SimRandom random_;
  SimClock clock_;
  FakeDisk disk_;
  BufferPool buffers_;
  std::shared_ptr<Volume> volume_;
  std::vector<std::shared_ptr<Volume>>
      dead_;  // closed ones: calls under way may still hold parts of them
  bool lost_ = false;
};

}  // namespace penstock::sim
