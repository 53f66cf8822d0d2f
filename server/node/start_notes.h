// What volumes note of one another's starts and failures (volume_notes.h), so that an old copy of
// one, or one whose disk failed, is not taken back (R13); and where a later one lies.
//
// A note that a peer does not take is logged; the other peers have it.
// Thread-safety: any thread but those of `io`; calls block, each note for at most
// limits::kNoProgress. Pre: `io` runs.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "placement/cluster_map.h"
#include "server/node/io_threads.h"
#include "server/node/store_directories.h"
#include "server/node/volume_slot.h"

namespace penstock {

class StartNotes {
 public:
  // `boot_id`: of this boot of the machine; empty = unknown. Ownership: borrows the rest.
  StartNotes(IoThreads& io, Clock& clock, std::string boot_id);

  // Admits the open volumes of `slots` or refuses them (start_admission.h): all volumes of the map
  // that there are, so nobody is waited for. Answers which were refused, and why.
  std::vector<std::pair<std::shared_ptr<VolumeSlot>, std::string>> admit_all(
      const VolumeSlots& slots, const std::shared_ptr<const ClusterMap>& map);

  // Counts the start that is under way. Only when the peers were asked: the count of a copy that
  // was refused stays what it was. On a thread of its own: should the disk hang, who watches the
  // volume for stalls closes it, and nobody waits.
  // Errors: as Volume::count_start(); unavailable - it was closed as stalled.
  static Result<> count_start(const std::shared_ptr<Volume>& volume);

  const std::string& boot_id() const { return boot_id_; }

  // At all open peers but itself: how often `started` was started; that `failed` has failed in this
  // boot; where `joining` lies. The last one also at itself, as its error: then a start that finds
  // a map with it finds the volume, too.
  void note_start(const VolumeSlot& started, const VolumeSlots& peers);
  void note_failure(const VolumeSlot& failed, const VolumeSlots& peers);
  Result<> note_path(const VolumeSlot& joining, const VolumeSlots& peers,
                     const StoreDirectories& directories);
  // At a volume elsewhere than below the store's single directory: which that is. `place`: where it
  // lies, without links.
  Result<> note_home(const VolumeSlot& volume, const std::string& place,
                     const StoreDirectories& directories);

 private:
  void tell_peers(const VolumeSlot& about, const VolumeSlots& peers, const std::string& name,
                  const std::string& bytes);

  IoThreads& io_;
  Clock& clock_;
  const std::string boot_id_;
};

}  // namespace penstock
