// Brings uploads to their end: those left open too long are aborted, an
// attempt that stopped half-way is rolled forward or given up, ended ones are forgotten after a day
// (part registers become tombstones first, then the upload's). Those of a deleted bucket end at
// once.
// That an attempt has stopped is judged by rounds, not by wall clocks: two looks found its upload
// the same, so far apart by this process's own clock that no Complete lives between its steps.
// Thread-safety: one executor.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/background/removal/pace.h"
#include "server/objects/multipart_apply.h"

namespace penstock {

class UploadSweep {
 public:
  explicit UploadSweep(BackgroundContext& context) : context_(context), pace_(context) {}
  // One look at every upload whose group's first live volume is local.
  Task<> pass();
  // An attempt was seen that may have stopped: the next look should not wait for long.
  bool waits() const { return waits_; }

 private:
  // What is known of the bucket of an upload.
  struct Home {
    std::shared_ptr<const Bucket> bucket;     // null: deleted
    std::shared_ptr<const Bucket> fenceless;  // its id and partitions, passing every fence
    bool busy = false;                        // being deleted
  };
  using Rows = std::vector<RegisterEntry>;

  Task<> sweep_volume(VolumeId volume, Progress& progress);
  std::optional<Duration> turn_of(VolumeId volume, const RegisterEntry& row) const;
  bool wants_work(VolumeId volume, const RegisterEntry& row) const;
  Task<> look_after(VolumeId volume, Home home, RegisterEntry row);
  bool has_stopped(VolumeId volume, const RegisterEntry& row, const Ballot& now);
  Task<> end_open(Home home, UploadName name, UploadRecord upload, Deadline deadline);
  Task<> roll_forward(Home home, UploadName name, UploadRecord upload, Deadline deadline);
  Task<> forget(UploadName name);

  // An attempt as it was found, and since when.
  struct Noted {
    Ballot ballot;
    BootTime since;
    std::uint64_t pass = 0;  // that has found it last
  };
  using NotedKey = std::pair<VolumeId, RegisterKey>;  // the volume for whose sake it was looked at

  BackgroundContext& context_;
  Pace pace_;
  std::map<NotedKey, Noted> noted_;  // at most limits::kAttemptsNotedMax
  std::uint64_t passes_ = 0;
  bool waits_ = false;
};

}  // namespace penstock
