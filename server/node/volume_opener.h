// Opens the volumes that lie in directories, and all else that this process does in a directory
// that is no open volume yet. Each on a thread of its own: a disk that hangs is waited for no
// longer than VolumeOptions::disk_call_max, then the thread is given up.
//
// Lifetime: it keeps the threads of the volumes, which must be closed before it goes. A thread that
// was given up may come back at any time and goes on with what it was given: this object and what
// it borrows must stay then (left_behind()), until the process ends.
// Thread-safety: find_hung() by a start, when nobody else asks for hung_paths() yet; open() on one
// thread at a time; the rest from any thread.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "server/node/volume_threads.h"
#include "server/volume/volume.h"

namespace penstock {

// What came of opening a directory.
struct FoundVolume {
  std::string path;
  std::shared_ptr<Volume> volume;
  Error error;        // why there is none
  bool hung = false;  // it is this: the disk did not answer in time
};

class VolumeOpener {
 public:
  // `options`: of each volume; a start is counted later, when the peers were asked (R13).
  // Ownership: borrows all but the options.
  VolumeOpener(VolumeOptions options, Clock& clock, Random& random, BufferPool& buffers);

  const VolumeOptions& options() const { return options_; }

  // One look at each directory, all at once: what does not come back in time hangs, is logged, and
  // is never opened by this process. Blocks.
  void find_hung(const std::vector<std::string>& paths);
  // Those that did. Constant after the start.
  const std::set<std::string>& hung_paths() const { return hung_paths_; }

  // Blocks. What hangs, or ends by an exception, is logged. Errors in the answer: Volume::open()'s;
  // unavailable - the disk hangs.
  FoundVolume open(const std::string& path);

  // Runs `job` for a directory that is no volume yet; `watch` sees the disk calls that it makes
  // under it. Blocks. Errors: unavailable - one did not return: the job was given up, and what it
  // uses must stay; busy - an earlier one that was given up is still under way; io - it threw.
  using DiskJob = std::function<void(const std::shared_ptr<DiskWatch>& watch)>;
  Result<> run_on_new_disk(const std::string& path, DiskJob job);

  // A thread that somebody else gave up at a directory.
  void count_given_up() { ++given_up_; }
  // How many threads were given up and may hang still.
  std::size_t left_behind() const;

 private:
  FoundVolume open_here(const std::string& path, std::shared_ptr<DiskWatch> watch);
  Result<> run_watched(const std::string& path, const std::shared_ptr<DiskWatch>& watch,
                       std::function<void()> job);

  VolumeOptions options_;
  Clock& clock_;
  Random& random_;
  BufferPool& buffers_;
  const std::shared_ptr<SharedDevices> devices_ = std::make_shared<SharedDevices>();
  VolumeThreads threads_;
  std::set<std::string> hung_paths_;
  std::atomic<std::size_t> given_up_{0};
  mutable std::mutex mutex_;           // guards the next one
  std::weak_ptr<DiskWatch> new_disk_;  // of the last job at a new disk; there while the job runs
};

}  // namespace penstock
