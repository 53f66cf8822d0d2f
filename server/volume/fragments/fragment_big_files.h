// Fragments too large for segments: "files/<xx>/<fragment id>", xx the last byte of the write-id.
// Written under a temporary name in the same directory, so that one directory sync makes it
// durable.
//
// Every method blocks. Thread-safety: all methods from any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "penstock/types.h"
#include "server/volume/disk/disk.h"
#include "server/volume/fragments/fragment_file.h"
#include "server/volume/fragments/fragment_room.h"

namespace penstock {

class BigFiles {
 public:
  // `room` is asked before a file is made.
  BigFiles(Disk& disk, FragmentRoom& room) : disk_(disk), room_(room) {}

  // Removes temporary files and those that no row names: they were never acknowledged, or their
  // removal was cut short.
  Result<> open(const std::function<bool(const FragmentId&)>& has_row);

  struct Temporary {
    std::string name;
    std::shared_ptr<FragmentFile> file;
  };
  // Errors: full - the disk has no room for it; io - final for the volume.
  Result<Temporary> create(const FragmentId& id, std::uint64_t bytes);
  // Syncs the bytes, gives the file its name, syncs the directory. Replaces a file of that name.
  Result<> publish(const FragmentId& id, const Temporary& temporary);
  // Errors: not_found; io.
  Result<std::shared_ptr<FragmentFile>> open_for_reading(const FragmentId& id);
  // An absent file: success.
  Result<> remove(const std::string& name);

  static std::string name_of(const FragmentId& id);

 private:
  Result<> make_directory_of(const FragmentId& id);

  Disk& disk_;
  FragmentRoom& room_;
  std::mutex mutex_;
  std::set<std::string> directories_;  // known to be durable; at most 256
  std::uint64_t temporaries_ = 0;      // made so far
};

}  // namespace penstock
