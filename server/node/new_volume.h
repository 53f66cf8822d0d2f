// Makes a volume that the map does not name yet, while the store runs; only ever asked for by a
// person. It joins the map by a replacement (volume_replacement.h).
//
// Blocks, but on a disk that hangs not for longer than on the others. What then is left behind, the
// opener counts; see its Lifetime. Thread-safety: one call at a time.
#pragma once
#include <memory>
#include <string>

#include "server/node/store_directories.h"
#include "server/node/volume_set.h"

namespace penstock {

class NewVolume {
 public:
  // Ownership: borrows all.
  NewVolume(VolumeSet& volumes, VolumeOpener& opener, StartNotes& notes,
            const StoreDirectories& directories, Clock& clock, Random& random);

  // Formats `path`, an empty directory or none yet, and opens it; the other volumes note where it
  // lies. A volume that was prepared there before, and never joined, is given again.
  // Errors: invalid - it holds something, a volume perhaps; busy; io; full; unavailable - the disk
  // hangs. The context says what to do.
  struct Prepared {
    MapVolume entry;
    std::shared_ptr<VolumeClient> client;
  };
  Result<Prepared> prepare(const std::string& path);

  // Is there room at `path` for what `leaving` holds, or, if that is lost, for as much as the
  // fullest volume does? A replacement that has begun cannot be called off.
  // Errors: full; io; unavailable - the disk hangs.
  Result<> check_room(const std::string& path, VolumeId leaving);

 private:
  Result<> check_apart(const std::string& path);
  Result<> format(const std::string& path, VolumeIdentity identity, const std::string& map);
  Result<> join(const MapVolume& entry, const std::string& path,
                const std::shared_ptr<Volume>& volume);

  VolumeSet& volumes_;
  VolumeOpener& opener_;
  StartNotes& notes_;
  const StoreDirectories& directories_;
  Clock& clock_;
  Random& random_;
};

}  // namespace penstock
