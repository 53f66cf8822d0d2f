// The calls of one volume's disk that do not return, in simulated time: a job of a worker whose
// first call hangs stays there, and those behind it wait. When the disk answers again, they go on;
// a job that was stuck goes on even if its volume has given its worker up. So it is when the
// process dies: what jobs find is a closed volume, and who waits in another process is told.
// Thread-safety: one thread.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "server/volume/disk/disk_watch.h"
#include "tests/sim/sim_time.h"

namespace penstock::sim {

class HungDisk {
 public:
  // Kinds of work, a set. Reads: of rows and fragments, scans, lists. Writes: commits, pieces of
  // fragments, syncs, new files, looks at the space.
  static constexpr unsigned kReads = 1;
  static constexpr unsigned kWrites = 2;

  explicit HungDisk(SimTime& time) : time_(time) {}

  void hang(unsigned kinds) { kinds_ = kinds; }
  bool hangs() const { return kinds_ != 0; }
  void answer_again();

  // A worker for `kinds` of work that runs its jobs by `inner`.
  static std::unique_ptr<Worker> make_worker(std::shared_ptr<HungDisk> disk, unsigned kinds,
                                             std::unique_ptr<Worker> inner,
                                             std::shared_ptr<DiskWatch> watch);

 private:
  class StuckWorker;
  struct Thread {
    bool stuck = false;
    bool abandoned = false;
  };
  struct Job {
    std::shared_ptr<Thread> thread;
    bool stuck = false;  // it has begun
    std::function<void()> run;
  };
  SimTime& time_;
  unsigned kinds_ = 0;
  std::shared_ptr<DiskWatch> watch_;  // keeps what call_ refers to
  std::unique_ptr<DiskWatch::Call> call_;
  std::vector<Job> waiting_;
};

}  // namespace penstock::sim
