// What a start does with the directories it is given: finds the volumes, formats them if the store
// is new, opens them with patience, chooses the map and gives each volume its place.
//
// A store is formatted only when no directory holds anything of a cluster (store_format.h). Later a
// volume directory that is missing or empty is a *missing* volume, never a new one: an unmounted
// disk must not rejoin empty. Only NewVolume, asked for by a person, makes a new one.
//
// The map of a start is the one of the highest epoch that any volume holds, if more than half of
// its volumes are there (of both its lists, while one is being replaced): a map that was decided
// upon lies at more than half, so it is found; one that was not is a step forward all the same.
// Where a volume lies when not under its first directories, the others have noted, and a list in a
// single directory.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/node/store_directories.h"
#include "server/node/volume_set.h"

namespace penstock {

struct StoreOptions {
  std::vector<std::string> directories;
  unsigned volumes = 6;  // under a single directory
  // Several directories become a new store only with it: were all of them empty because their disks
  // are not mounted yet, the store would end on the wrong disk. It never formats what holds a
  // store. A single directory needs none.
  bool format = false;
  // Nothing is formatted, and a store that belongs to a cluster is opened, too; else it is refused:
  // its servers may have gone on without this one.
  bool as_it_is = false;
  VolumeOptions volume;
  std::string boot_id;                   // of this boot of the machine; empty = unknown
  std::unique_ptr<LayoutPolicy> policy;  // of a new cluster; null = by the number of volumes
};

// Ownership: borrows all. Threads that a start leaves behind use the opener (see its Lifetime), and
// volumes that the set keeps, but not the start.
struct StoreStartParts {
  const StoreOptions& options;
  const StoreDirectories& directories;
  VolumeOpener& opener;
  VolumeSet& volumes;
  StartNotes& notes;
  IoThreads& io;
  Clock& clock;
  Random& random;
};

// Used once, then thrown away. Thread-safety: none; blocks. Pre: the I/O threads run.
class StoreStart {
 public:
  explicit StoreStart(StoreStartParts parts) : parts_(parts) {}

  // Fills the set of volumes and begins the watch over their disk calls. After an error the set
  // holds what was opened, and only its close() is left to call.
  // Errors: busy - another process uses so many directories that too few are left; corrupt or
  // invalid - another or newer format, or too few volumes agree on the map; overloaded; io. The
  // context says what to do.
  Result<> run();
  // The directories have become a new store.
  bool formatted() const { return formatted_; }

 private:
  using Founds = std::vector<FoundVolume>;

  Result<> open_and_place(Founds& found);
  Result<> format_if_wanted();
  // ---- find and open
  std::vector<std::string> known_places() const;
  Result<> open_all(Founds& found);
  Result<> check_no_copy(const Founds& found);
  void note_homes();
  // Waits a moment for another process that is just ending.
  FoundVolume open_unlocked(const std::string& path);
  bool may_hang(const std::string& path) const { return hung_paths().contains(path); }
  const std::set<std::string>& hung_paths() const { return parts_.opener.hung_paths(); }
  // ---- give each its place
  VolumeSlots fill_slots(const ClusterMap& map, const Founds& found) const;
  std::shared_ptr<VolumeSlot> fill_slot(const MapVolume& entry, const ClusterMap& map,
                                        const Founds& found) const;
  std::string path_of(const MapVolume& entry, const Founds& found) const;
  std::string mount_hint(const std::string& path, const Founds& found) const;
  Result<> agree_epochs();

  const StoreStartParts parts_;
  bool formatted_ = false;
  std::map<std::string, std::string> real_;  // of what was opened: without links
  // How long the start waits for directories that another process uses.
  std::optional<std::chrono::steady_clock::time_point> unlocked_by_;
};

}  // namespace penstock
