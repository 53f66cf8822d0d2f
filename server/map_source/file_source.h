// A map in a file: for a cluster whose map is changed by hand, on one machine or on a file system
// that all of them share. Waiting looks at the file's time and size now and then.
// Locks: PATH.lock while the file is compared and replaced, PATH.driver as long as a process drives
// (both flock(2), so that they end with it).
// Thread-safety: as MapSource. Calls block on a thread of its own.
#pragma once
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
  ~FileSource() override;

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
  const std::string path_;
  const MapSourceParts parts_;
  FileLock driving_;  // of the worker
  std::unique_ptr<Worker> worker_;
};

}  // namespace penstock
