// The volumes of one process under one or several directories: formatted once, found again,
// watched.
//
// `penstock local DIR` keeps six volumes DIR/v0 … DIR/v5; with several DIRs each is one volume. A
// store is formatted only when no directory holds anything of a cluster. Later a volume directory
// that is missing or empty is a *missing* volume, never a new one: an unmounted disk must not
// rejoin empty. The cluster map is the one of the highest epoch that more than half of the volumes
// hold.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/runtime.h"
#include "penstock/volume_client.h"
#include "placement/cluster_map.h"
#include "server/node/io_threads.h"
#include "server/volume/volume.h"

namespace penstock {

struct LocalStoreOptions {
  std::vector<std::string> directories;
  unsigned volumes = 6;  // under a single directory
  VolumeOptions volume;
  std::string boot_id;                   // of this boot of the machine; empty = unknown
  std::unique_ptr<LayoutPolicy> policy;  // of a new cluster; null = by the number of volumes
};

class LocalStore {
 public:
  // Opens, or formats and opens. Blocks; call it before the store is served, but with the I/O
  // threads running. Errors: busy - another process uses a directory; corrupt or invalid - another
  // or newer format, or too few volumes agree on the map; io. The context says what to do.
  static Result<std::unique_ptr<LocalStore>> open(LocalStoreOptions options, IoThreads& io,
                                                  Clock& clock, Random& random,
                                                  BufferPool& buffers);
  ~LocalStore();  // closes the volumes in order

  std::shared_ptr<const ClusterMap> map() const { return map_; }
  // One client per volume of the map that is open; missing ones are told by states() only.
  std::vector<std::shared_ptr<VolumeClient>> clients() const;
  bool was_formatted() const { return formatted_; }

  struct VolumeState {
    std::string name;
    std::string path;
    VolumeStatus status;
  };
  // Thread-safety: any thread.
  std::vector<VolumeState> states() const;
  // Writes are possible: every register group has a majority, and a blob finds volumes enough.
  bool ready_for_writes() const;
  // Looks whether each volume's directory is still the one that was opened, logs what changed since
  // the last call and notes failures at the other volumes. Blocks; call it from one thread.
  void watch();

 private:
  struct Slot {
    MapVolume entry;
    std::string path;
    std::shared_ptr<Volume> volume;  // null: missing or refused; set once, by open()
    VolumeStatus refused;            // why it is null
    VolumeStatus::State last_state = VolumeStatus::State::open;
    bool was_full = false;
  };
  struct Found {
    std::string path;
    std::shared_ptr<Volume> volume;
    Error error;  // why there is no volume
  };
  LocalStore(LocalStoreOptions options, IoThreads& io, Clock& clock, Random& random,
             BufferPool& buffers);
  std::vector<std::string> volume_paths() const;
  Result<bool> wants_format() const;
  Result<> format();
  Found open_volume(const std::string& path);
  Result<> choose_map(const std::vector<Found>& found);
  void fill_slots(std::vector<Found> found);
  void refuse(Slot& slot, std::string reason);
  void refuse_old_copies();
  Result<> agree_epochs();
  void note_failure(const Slot& failed);
  void warn_of_shared_devices() const;
  // Runs `task` on an I/O thread and waits for it.
  Result<> wait(Task<> task);

  LocalStoreOptions options_;
  IoThreads& io_;
  Clock& clock_;
  Random& random_;
  BufferPool& buffers_;
  const std::shared_ptr<SharedDevices> devices_ = std::make_shared<SharedDevices>();
  std::shared_ptr<const ClusterMap> map_;
  std::vector<Slot> slots_;
  bool formatted_ = false;
};

}  // namespace penstock
