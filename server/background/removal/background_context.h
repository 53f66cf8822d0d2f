// What all background work of a process shares: whom to ask, how fast, what it has done so far.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/background/removal/removal_options.h"
#include "server/objects/objects.h"

namespace penstock {

// How far the pass of one job is, or was at its end.
struct JobProgress {
  std::uint64_t done = 0;
  std::uint64_t total = 0;  // never less than `done`; the same where it is not known
  double per_second = 0;
  bool running = false;
  BootTime since{};  // when it began or, if it does not run, when it ended
};

// For /metrics and the operator. Plain values, as of the last look.
struct BackgroundStatus {
  std::uint64_t tombstones_waiting = 0;  // registers of deleted things that still have their row
  std::uint64_t hints_waiting = 0;       // rows on the local volumes, due or not
  std::uint64_t orphan_fragments = 0;    // found by the last sweep and not removed yet
  std::uint64_t orphan_bytes = 0;
  Duration oldest_orphan{};  // since its last lease ended
  WallTime last_sweep{};     // end of the last whole one; zero: none yet
  // Since the start of the process.
  std::uint64_t hints_done = 0;
  std::uint64_t hints_given_up = 0;
  std::uint64_t fragments_removed_by_hints = 0;
  std::uint64_t fragments_removed_by_sweeps = 0;
  std::uint64_t bytes_removed_by_sweeps = 0;
  std::uint64_t sweeps = 0;
  std::uint64_t uploads_expired = 0;
  std::uint64_t uploads_rolled_forward = 0;
  std::uint64_t uploads_forgotten = 0;
  std::uint64_t tombstones_purged = 0;
  std::uint64_t buckets_rolled_forward = 0;
  std::uint64_t stray_rows_ended = 0;
  std::map<std::string, JobProgress> jobs;  // by what they work off
};

// Thread-safety: any thread.
class StatusBoard {
 public:
  BackgroundStatus read() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  void change(const std::function<void(BackgroundStatus&)>& edit) {
    const std::lock_guard lock(mutex_);
    edit(status_);
  }

 private:
  mutable std::mutex mutex_;
  BackgroundStatus status_;
};

// Ownership: borrows all but the values.
struct BackgroundContext {
  Membership& membership;
  Proposer& proposer;
  Index& index;
  Blobs& blobs;
  Objects& objects;
  Clock& clock;
  // The volumes whose hints, fragments and uploads are looked after; none named: all of the map.
  std::vector<VolumeId> local;
  RemovalOptions options;
  std::shared_ptr<StatusBoard> board = std::make_shared<StatusBoard>();
  std::shared_ptr<std::atomic<bool>> stopping = std::make_shared<std::atomic<bool>>(false);

  std::vector<VolumeId> local_volumes() const;
  bool stops() const { return stopping->load(); }
  Deadline step_deadline() const { return clock.boot() + Duration(limits::kOperationDeadline); }
};

// The first live volume of a register's group does its work, if that is local. `rank`: how many
// live volumes of the group come before `volume`; nullopt: it is not in the group.
std::optional<std::size_t> rank_in_group(const BackgroundContext& context, VolumeId volume,
                                         BucketId bucket, std::uint32_t partitions,
                                         std::string_view key);

// Was a register last changed so long ago, by the wall clock? Its ballot says when, or later.
bool is_older(const BackgroundContext& context, const Ballot& ballot, Duration age);

// Background rounds pass the fences of deleted buckets: no client sees their result ("Buckets" in
// server/proposer/README.md).
inline constexpr BucketNumber kPassesFences{~std::uint64_t{0}};
RegisterRef row_of(RegisterKey key, std::uint32_t partitions);
RegisterRef object_of(const FragmentOwner& owner);
RegisterRef upload_of(const FragmentOwner& owner);

}  // namespace penstock
