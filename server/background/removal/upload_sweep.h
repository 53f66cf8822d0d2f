// Brings uploads to their end: those left open too long are aborted, an
// attempt that stopped half-way is rolled forward or given up, ended ones are forgotten after a day
// (part registers become tombstones first, then the upload's). Those of a deleted bucket end at
// once.
// Thread-safety: one executor.
#pragma once
#include <memory>
#include <vector>

#include "server/background/removal/pace.h"
#include "server/objects/multipart_apply.h"

namespace penstock {

class UploadSweep {
 public:
  explicit UploadSweep(BackgroundContext& context) : context_(context), pace_(context) {}
  // One look at every upload whose group's first live volume is local.
  Task<> pass();

 private:
  // What is known of the bucket of an upload.
  struct Home {
    std::shared_ptr<const Bucket> bucket;     // null: deleted
    std::shared_ptr<const Bucket> fenceless;  // its id and partitions, passing every fence
    bool busy = false;                        // being deleted
  };
  using Rows = std::vector<RegisterEntry>;

  Task<> sweep_volume(VolumeId volume, Progress& progress);
  bool wants_work(VolumeId volume, const RegisterEntry& row) const;
  Task<> look_after(Home home, RegisterEntry row);
  Task<> end_open(Home home, UploadName name, UploadRecord upload, Deadline deadline);
  Task<> roll_forward(Home home, UploadName name, UploadRecord upload, Deadline deadline);
  Task<> forget(UploadName name);

  BackgroundContext& context_;
  Pace pace_;
};

}  // namespace penstock
