// A map in a file: for a cluster whose map is changed by hand, on one machine or on a file system
// that all of them share. Waiting looks at the file's time and size now and then.
// Locks: PATH.lock while the file is compared and replaced, PATH.driver as long as a process drives
// (both flock(2), so that they end with it).
// Thread-safety: as MapSource. Calls block on a thread of its own. One that has not come back at
// its deadline (an NFS server that is away) is left to itself; until it does others are refused.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/runtime.h"
#include "penstock/whole_file.h"
#include "server/map_source/map_source.h"

namespace penstock {

class FileSource final : public MapSource {
 public:
  FileSource(std::string path, MapSourceParts parts);
  FileSource(std::string path, MapSourceParts parts, std::unique_ptr<Worker> worker);
  ~FileSource() override;  // waits for no call that was left to itself

  std::string name() const override { return "file:" + path_; }
  Task<MapHead> read(Deadline deadline) override;
  Task<MapRevision> replace(std::shared_ptr<const ClusterMap> map, MapRevision expected,
                            Deadline deadline) override;
  Task<MapHead> wait_for_change(MapRevision seen, Deadline deadline) override;
  bool keeps_announcements() const override { return false; }
  Task<> announce(Announcement announcement, Deadline deadline) override;
  Task<std::vector<Announcement>> announced(Deadline deadline) override;
  Task<> drive(std::string driver, Deadline deadline) override;
  Task<> resign(Deadline deadline) override;

 private:
  // The job on the worker, which owns what it uses. Errors: its own; timeout; unavailable - an
  // earlier one hangs.
  template <class T>
  Task<T> run(std::function<Result<T>()> job, Deadline deadline);

  const std::string path_;
  const MapSourceParts parts_;
  const std::shared_ptr<FileLock> driving_ = std::make_shared<FileLock>();  // of the worker
  std::unique_ptr<Worker> worker_;
  std::shared_ptr<std::atomic<bool>> late_;  // has the last one that was late ended? null: none was
};

}  // namespace penstock
