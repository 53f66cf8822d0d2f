// What the phases of a replacement share, and what they tell of themselves. The board may be read
// by any thread; the rest belongs to one executor.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/background/replacement/throttle.h"
#include "server/background/replacement/volume_replacement.h"

namespace penstock {

class ReplacementBoard {
 public:
  explicit ReplacementBoard(Clock& clock) : clock_(clock) {}

  ReplacementStatus read() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  template <class Edit>
  void change(Edit edit) {
    const std::lock_guard lock(mutex_);
    edit(status_);
  }
  void begin(std::string what, std::uint64_t total) {
    const std::lock_guard lock(mutex_);
    status_.what = std::move(what);
    status_.done = 0;
    status_.total = total;
    status_.rate = 0;
    began_ = clock_.boot();
  }
  void step(std::uint64_t count) {
    const std::lock_guard lock(mutex_);
    status_.done += count;
    status_.total = std::max(status_.total, status_.done);
    const double seconds = static_cast<double>((clock_.boot() - began_).count()) / 1e6;
    if (seconds > 0) status_.rate = static_cast<double>(status_.done) / seconds;
  }

 private:
  Clock& clock_;
  mutable std::mutex mutex_;
  ReplacementStatus status_;
  BootTime began_{};
};

struct ReplacementContext {
  explicit ReplacementContext(ReplacementParts p)
      : parts(std::move(p)),
        board(parts.clock),
        rows(parts.clock, parts.options.rows_per_second),
        bytes(parts.clock, parts.options.bytes_per_second) {}

  Deadline soon() const { return parts.clock.boot() + Duration(limits::kOperationDeadline); }

  ReplacementParts parts;
  ReplacementBoard board;
  Throttle rows;
  Throttle bytes;
  std::atomic<bool> stopping{false};
  // Does the next pass make every Complete under way list its parts again? The last pass must. A
  // pass that follows one which ended early, or which waited for something, does not.
  bool touches = true;
};

using Volumes = std::vector<std::shared_ptr<VolumeClient>>;

// Do the listed volumes make up a majority of the (old) list of each group? With `joint_only`, of
// each joint group.
bool covers(const ClusterMap& map, const std::vector<VolumeId>& listed, bool joint_only);
// What it means that they do not.
Error too_few_listed();

// A write-back for every row of the joint groups of `map` (R12). `volumes`: those that answer
// under its epochs, so that their rows hold all that was accepted under older ones.
// Errors: aborted - the process stops; unavailable - begin again.
Task<> bring_rows(ReplacementContext& context, std::shared_ptr<const ClusterMap> map,
                  Volumes volumes);

// One pass over all registers of `volumes`. True: nothing was left to do. Errors: the same.
Task<bool> move_fragments(ReplacementContext& context, std::shared_ptr<const ClusterMap> map,
                          Volumes volumes);

}  // namespace penstock
