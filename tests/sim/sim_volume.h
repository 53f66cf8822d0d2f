// One volume of the simulated world: the product's own Volume on a simulated disk, with a clock of
// its own; it crashes, loses what was not synced, comes back, or is lost for good.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "placement/cluster_map.h"
#include "server/volume/volume.h"
#include "tests/fake/fake_disk.h"
#include "tests/sim/graces.h"
#include "tests/sim/hung_disk.h"
#include "tests/sim/sim_network.h"

namespace penstock::sim {

struct SimVolumeOptions {
  SimMicros disk_delay_max = 2'000;              // of one job of the disk's threads
  std::size_t cache_bytes = 256 * limits::kKiB;  // of the registers used last
  std::size_t ballot_bytes = 64 * limits::kKiB;  // of the ballots that rows are known to have
  std::size_t promise_slots = PromiseTable::kSlots;
  // It keeps room back: when full it refuses bodies and takes records still. Without, it finds out
  // from calls that fail.
  bool reserve = false;
  // A group commit waits so long for its sync at most, while other threads of the volume go on and
  // the process may die; 0: it is one step.
  SimMicros sync_max = 0;
  // No page of a file is in memory: what the cache of registers does not have is read on a thread.
  bool cold = false;
  // What a start grants. Over connections it takes up to 20 s to learn that a volume is gone.
  Duration start_lease = graces::kStartLease;
};

class SimVolume final : public VolumeHost {
 public:
  // `clock`: of its server; null: one of its own.
  SimVolume(SimTime& time, std::uint64_t seed, MapVolume entry,
            std::shared_ptr<const ClusterMap> map, SimVolumeOptions options = {},
            std::shared_ptr<SimClock> clock = nullptr);
  ~SimVolume() override;

  // Makes it a volume of the cluster. Once.
  Result<> format();
  // Opens it as a process start does; what is damaged stays down. `later`: it is to be admitted.
  Result<> start(CountStart count = CountStart::at_open);
  // The process dies and the machine loses power: unsynced data and names are kept, dropped or torn
  // by the seed.
  void crash();
  // The process dies alone: what the kernel has is kept.
  void kill();
  // The power goes at the nth change of the disk from now; crash() must follow.
  void crash_at_change(std::uint64_t nth);
  // Work of these kinds (HungDisk) does not end any more, until answer_again() or the process dies.
  // The volume is looked at meanwhile, as a process does.
  void hang(unsigned kinds);
  void answer_again() { hung_->answer_again(); }
  bool hangs() const { return hung_->hangs(); }
  // The disk is gone.
  void lose();
  // Every call of the disk fails from now on, and after each restart.
  void fail_from_now_on();
  // The disk comes back empty: it must not be taken for the volume.
  void wipe();
  // A bit flips in some file, or a file is lost; the volume may refuse to start from then on.
  void flip_bit();
  void lose_file();

  VolumeId id() const override { return entry_.id; }
  std::shared_ptr<VolumeClient> current() const override { return volume_; }
  // Pre: running. What a joining or leaving volume makes of its groups.
  Task<> set_epochs(std::vector<GroupEpoch> epochs) {
    return volume_->set_epochs(std::move(epochs));
  }
  // Nothing that it holds counts from now on.
  void leave_out() { damaged_ = true; }
  bool lost() const { return lost_; }
  // What it holds may be gone in part.
  bool damaged() const { return lost_ || damaged_; }
  // The disk has no room left, until set_full(false).
  void set_full(bool full);
  bool full() const { return full_; }
  // It went on serving after a call of its disk had failed.
  bool survived_failure() const { return survived_failure_; }
  Deadline bound() const override { return clock_->boot() + limits::kOperationDeadline; }
  std::shared_ptr<Volume> opened() const { return volume_; }
  bool running() const { return volume_ != nullptr; }
  std::uint64_t stops() const override { return dead_.size(); }
  FakeDisk& disk() { return disk_; }
  SimClock& clock() { return *clock_; }
  SimRandom& random() { return random_; }

 private:
  void stop();
  std::unique_ptr<Disk> open_disk();
  void look_while_hung();
  SimTime& time_;
  SimVolumeOptions options_;
  MapVolume entry_;
  std::shared_ptr<const ClusterMap> map_;
  SimRandom random_;
  const std::shared_ptr<SimClock> clock_;
  FakeDisk disk_;
  BufferPool buffers_;
  std::shared_ptr<HungDisk> hung_;
  std::shared_ptr<Volume> volume_;
  std::vector<std::shared_ptr<Volume>>
      dead_;  // closed ones: calls under way may still hold parts of them
  bool lost_ = false;
  bool damaged_ = false;
  bool full_ = false;
  bool survived_failure_ = false;
  bool committing_ = false;  // a group commit is under way
};

}  // namespace penstock::sim
