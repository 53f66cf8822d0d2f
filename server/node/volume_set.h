// The volumes of the map in this process: which are open, what becomes of them while it runs, and
// their orderly end.
//
// StoreStart fills it, once; NewVolume adds to it. Until then it is empty: map() is null, nothing
// is ready. A volume that is missing or was refused has a slot, too, which says why.
//
// Lifetime: volumes may hang in their disks for ever, and so may the threads that close them.
// close() says how many are left behind: then this object and all that it borrows must stay until
// the process ends.
// Thread-safety: any thread, where nothing else is said.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/node/stall_watch.h"
#include "server/node/start_notes.h"
#include "server/node/volume_opener.h"
#include "server/node/volume_slot.h"

namespace penstock {

class VolumeSet {
 public:
  // Ownership: borrows both.
  VolumeSet(VolumeOpener& opener, StartNotes& notes);
  ~VolumeSet();  // closes the volumes in order, unless close() has; waits for them without an end

  std::shared_ptr<const ClusterMap> map() const;
  // One client per volume of the map that is open; missing ones are told by states() only.
  std::vector<std::shared_ptr<VolumeClient>> clients() const;
  // The client of one volume; null: it is not open here.
  std::shared_ptr<VolumeClient> client(VolumeId id) const;

  struct VolumeState {
    VolumeId id;
    std::string name;
    std::string path;
    VolumeStatus status;
    bool stalled = false;             // a look at its directory may hang, too
    std::uint64_t damaged_reads = 0;  // found a fragment of it damaged, since it was opened
  };
  std::vector<VolumeState> states() const;
  // How long the syncs of each open volume took, by its name.
  std::vector<std::pair<std::string, LatencyHistogram::Counts>> sync_counts() const;
  // Those of `paths` at which nothing is known to hang.
  std::vector<std::string> answering(std::vector<std::string> paths) const;

  // A newer map holds, or the first one. Volumes that were being replaced and that it does not name
  // any more are closed for good. Others that it lacks stay open, and that is logged: a map that
  // lost them says nothing of what they hold.
  void take_map(std::shared_ptr<const ClusterMap> map, SameEpoch other = SameEpoch::stays);
  // Logs what changed since the last call and notes failures at the other volumes.
  // `at_directories`: looks first whether each volume's directory is still the one that was opened,
  // each on a thread of its own. Blocks, but on no disk for longer than half a second.
  // Thread-safety: one thread.
  void watch(bool at_directories);
  // Is told of each volume whose disk has failed, by watch(). Before that begins.
  void on_failure(std::function<void(VolumeId)> told) { on_failure_ = std::move(told); }

  // ---- by who starts or adds a volume: one thread at a time
  // The content, once. No disk call of it is looked at yet.
  void place(std::shared_ptr<const ClusterMap> map, VolumeSlots slots);
  // Volumes of a start that failed before it could place any: only close() is left to call.
  void keep_to_close(std::vector<std::shared_ptr<Volume>> unplaced);
  // From now on volumes are closed whose disk calls do not return. Once.
  void begin_stall_watch();
  // The same, then what a start does where all volumes of the map are here: admits those that are
  // open, and refuses those that the others know as old copies or as failed (R13). Blocks. Pre: the
  // I/O threads run.
  void admit();
  // Closes the slot's volume and tells why it is missing from now on. Before anybody calls it.
  void refuse(VolumeSlot& slot, std::string reason);
  // As they are now: of the map, and one that was prepared.
  VolumeSlots slots() const;
  // The same for a volume that gets its slot later, or never. watch_no_more(): it may be closed.
  void watch_for_stalls(const std::shared_ptr<Volume>& volume) { stall_watch_.add(volume); }
  void watch_no_more(const std::shared_ptr<Volume>& volume) { stall_watch_.remove(volume); }
  void add(std::shared_ptr<VolumeSlot> prepared);

  // ---- the end: no other call is under way, nor one to a volume
  // Closes the volumes, side by side, and says how many threads are left behind after `patience`:
  // of volumes that were closed as stalled, retired ones too; of the opener, at other directories;
  // and of this very call. See Lifetime above.
  std::size_t close(Duration patience);

 private:
  void close_all();
  // Of the map to come. Pre: the mutex is held.
  bool leaves(const VolumeSlot& slot, const ClusterMap& next) const;
  bool is_lost(const VolumeSlot& slot, const ClusterMap& next) const;
  std::size_t left_behind() const;
  VolumeSlots slots_and_retired() const;
  void tell_fullness(VolumeSlot& slot, bool full) const;

  static constexpr unsigned kLooksMax = 12;  // at directories, at a time

  VolumeOpener& opener_;
  StartNotes& notes_;
  StallWatch stall_watch_;
  WorkerPool looks_{"identity", kLooksMax};
  std::function<void(VolumeId)> on_failure_;
  bool closed_ = false;       // of close() and the destructor
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<const ClusterMap> map_;
  VolumeSlots slots_;                              // of the map, and one that was prepared
  VolumeSlots retired_;                            // closed; calls under way may still use them
  std::vector<std::shared_ptr<Volume>> unplaced_;  // of a start that failed
};

}  // namespace penstock
