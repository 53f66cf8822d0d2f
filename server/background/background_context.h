// What all background work of a process shares: whom to ask, how fast, what it has done so far.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "server/cluster/objects.h"

namespace penstock {

struct BackgroundOptions {
  // How often each job begins; a pass that takes longer is followed by the next at once.
  Duration hints_every = std::chrono::minutes(1);
  Duration sweep_every = std::chrono::hours(1);
  Duration uploads_every = std::chrono::hours(1);
  std::uint32_t steps_per_second = 200;  // of each job: hints, owners of fragments, uploads
  Duration hint_delay = limits::kHintDelay;
  // Work of a group is its first live volume's. Who is dead is not always known: the next one
  // begins so much later, and so on.
  Duration takeover = limits::kHintTakeover;
  Duration hint_give_up = limits::kHintGiveUp;
  Duration hint_retry_first = std::chrono::minutes(1);
  Duration hint_retry_last = std::chrono::hours(1);
  Duration upload_expiry = limits::kUploadExpiry;
  Duration upload_kept = limits::kUploadKept;
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
  Objects& objects;
  Clock& clock;
  std::vector<VolumeId> local;  // the volumes whose hints, fragments and uploads are looked after
  BackgroundOptions options;
  std::shared_ptr<StatusBoard> board = std::make_shared<StatusBoard>();
  std::shared_ptr<std::atomic<bool>> stopping = std::make_shared<std::atomic<bool>>(false);

  bool stops() const { return stopping->load(); }
  Deadline step_deadline() const { return clock.boot() + Duration(limits::kOperationDeadline); }
};

// Whose work a register's is: the first live volume of its group, if that is local. `rank`: how
// many live volumes of the group come before `volume`; nullopt: it is not in the group.
std::optional<std::size_t> rank_in_group(const BackgroundContext& context, VolumeId volume,
                                         BucketId bucket, std::uint32_t partitions,
                                         std::string_view key);

// Background rounds pass the fences of deleted buckets: no client sees their result (metadata
// "Buckets").
inline constexpr BucketNumber kPassesFences{~std::uint64_t{0}};
RegisterRef object_of(const FragmentOwner& owner);
RegisterRef upload_of(const FragmentOwner& owner);

}  // namespace penstock
