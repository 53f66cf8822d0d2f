// The volumes of one process under one or several directories: formatted once, found again,
// watched.
//
// `penstock local DIR` keeps six volumes DIR/v0 … DIR/v5; with several DIRs each is one volume. A
// store is formatted only when no directory holds anything of a cluster, and several only when they
// are asked to be (LocalStoreOptions::format). Later a volume directory that is missing or empty is
// a *missing* volume, never a new one: an unmounted disk must not rejoin empty. Only
// prepare_volume(), asked for by a person, makes a new one.
//
// The map of a start is the one of the highest epoch that any volume holds, if more than half of
// its volumes are there (of both its lists, while one is being replaced): a map that was decided
// upon lies at more than half, so it is found; one that was not is a step forward all the same.
// Where a volume lies when not under its first directories, the others have noted, and a list in a
// single directory.
#pragma once
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
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
  // Several directories become a new store only with it: were all of them empty because their disks
  // are not mounted yet, the store would end on the wrong disk. It never formats what holds a
  // store. A single directory needs none.
  bool format = false;
  VolumeOptions volume;
  std::string boot_id;                   // of this boot of the machine; empty = unknown
  std::unique_ptr<LayoutPolicy> policy;  // of a new cluster; null = by the number of volumes
};

class LocalStore {
 public:
  LocalStore(LocalStoreOptions options, IoThreads& io, Clock& clock, Random& random,
             BufferPool& buffers);
  ~LocalStore();  // closes the volumes in order

  // Opens, or formats and opens; once, and before all else. Blocks, with the I/O threads running.
  // After an error only close() is left to call. Errors: busy - another process uses so many
  // directories that too few are left; corrupt or invalid - another or newer format, or too few
  // volumes agree on the map; io. The context says what to do.
  Result<> start();

  std::shared_ptr<const ClusterMap> map() const;
  // One client per volume of the map that is open; missing ones are told by states() only.
  std::vector<std::shared_ptr<VolumeClient>> clients() const;
  // The client of one volume; null: it is not open here. Thread-safety: any thread.
  std::shared_ptr<VolumeClient> client(VolumeId id) const;
  bool was_formatted() const { return formatted_; }

  struct VolumeState {
    VolumeId id;
    std::string name;
    std::string path;
    VolumeStatus status;
    bool stalled = false;  // a look at its directory may hang, too
  };
  // Thread-safety: any thread.
  std::vector<VolumeState> states() const;
  // Those of `paths` at which nothing is known to hang. Thread-safety: any thread.
  std::vector<std::string> answering(std::vector<std::string> paths) const;

  // ---- changes while the store runs
  // Formats `path`, an empty directory or none yet, as a volume that the map does not name yet, and
  // opens it; the other volumes note where it lies. Blocks, but on a disk that hangs not for
  // longer than on the others; one call at a time. Errors: invalid - it holds something, a volume
  // perhaps; busy; io; full; unavailable - the disk hangs. The context says what to do.
  struct Prepared {
    MapVolume entry;
    std::shared_ptr<VolumeClient> client;
  };
  Result<Prepared> prepare_volume(const std::string& path);
  // Is there room at `path` for what `leaving` holds, or, if that is lost, for as much as the
  // fullest volume does? A replacement that has begun cannot be called off. Blocks as the
  // one above, not beside it. Errors: full; io; unavailable.
  Result<> check_room(const std::string& path, VolumeId leaving);
  // A newer map holds. Volumes that it does not name any more are closed for good.
  // Thread-safety: any thread.
  void take_map(std::shared_ptr<const ClusterMap> map);

  // Writes are possible: every register group has a majority, and a blob finds volumes enough.
  bool ready_for_writes() const;
  // Looks whether each volume's directory is still the one that was opened, each on a thread of its
  // own, logs what changed since the last call and notes failures at the other volumes. Blocks, but
  // on no disk for longer than half a second; call it from one thread.
  void watch();
  // Volumes that were closed as stalled, retired ones too, and other directories with which threads
  // of the store hang: these may never end.
  std::size_t stalled() const;
  // Closes the volumes, side by side, and says how many are left behind after `patience`: a call of
  // theirs has not returned. Then this object must stay, too, until the process ends.
  std::size_t close(Duration patience);

 private:
  struct IdentityCheck;
  struct Slot {
    MapVolume entry;
    std::string path;
    std::shared_ptr<Volume> volume;  // null: missing or refused; set once, by start()
    VolumeStatus refused;            // why it is null
    bool hung = false;               // so it is
    VolumeStatus::State last_state = VolumeStatus::State::open;
    bool was_full = false;
    std::shared_ptr<IdentityCheck> check;  // made by the first watch()
  };
  struct Found {
    std::string path;
    std::shared_ptr<Volume> volume;
    Error error;  // why there is no volume
    bool hung = false;
  };
  Result<> open_and_place(std::vector<Found>& found);
  std::vector<std::string> volume_paths() const;
  Result<> format_if_new();
  Result<> may_format(const std::vector<std::string>& paths) const;
  std::string mount_hint(const std::string& path) const;
  Found open_volume(const std::string& path, std::shared_ptr<DiskWatch> watch);
  // The same with an end, should the disk hang: then the thread that opens it is given up.
  Found open_watched(const std::string& path);
  // The same, but waits a moment for another process that is just ending.
  Found open_unlocked(const std::string& path);
  // Runs `job`, whose disk calls `watch` sees, on a thread of its own. `unavailable`: one did not
  // return; the thread is given up, and what the job uses must stay.
  Result<> run_watched(const std::string& path, const std::shared_ptr<DiskWatch>& watch,
                       std::function<void()> job);
  // The same for a directory that is no volume yet; not while one given up is still under way.
  Result<> on_new_disk(const std::string& path,
                       std::function<void(const std::shared_ptr<DiskWatch>& watch)> job);
  Result<> format_new(const std::string& path, VolumeIdentity identity, const std::string& map);
  Result<> join(const MapVolume& entry, const std::string& path,
                const std::shared_ptr<Volume>& volume);
  void find_hung(const std::vector<std::string>& paths);
  void watch_for_stalls();
  void watch_volume(const std::shared_ptr<Volume>& volume);
  void watch_no_more(const std::shared_ptr<Volume>& volume);
  Result<> count_start(const std::shared_ptr<Volume>& volume);
  void close_all();
  Deadline note_deadline() const { return clock_.boot() + Duration(limits::kNoProgress); }
  Result<> open_all(std::vector<Found>& found);
  std::vector<std::string> noted_paths(const std::vector<Found>& found) const;
  // What the list beside the store's mark says, and what is added to it (volume_list.h). Trouble
  // with it is logged: the volumes know it as well.
  std::vector<std::string> listed_paths() const;
  void list_paths(const std::vector<std::string>& paths) const;
  std::string path_of(const MapVolume& entry, const std::vector<Found>& found) const;
  Result<> choose_map(const std::vector<Found>& found);
  void fill_slots(std::vector<Found> found);
  void refuse(Slot& slot, std::string reason);
  void find_unread(const std::vector<Found>& found);
  void tell_unknown(const Found& found) const;
  void refuse_old_copies();
  void count_starts();
  void note_start(const Slot& started);
  Result<> agree_epochs();
  void note_failure(const Slot& failed);
  void warn_of_shared_devices() const;
  std::vector<std::shared_ptr<Slot>> slots() const;
  // Runs `task` on an I/O thread and waits for it.
  template <class T>
  Result<T> wait(Task<T> task);

  LocalStoreOptions options_;
  IoThreads& io_;
  Clock& clock_;
  Random& random_;
  BufferPool& buffers_;
  // Looks for disk calls that do not return. Makes none.
  std::atomic<bool> ending_{false};
  std::thread stall_watch_;
  std::mutex watch_mutex_;  // guards the next one; held while it is looked at
  std::vector<std::shared_ptr<Volume>> watched_;
  std::set<std::string> hung_paths_;  // at the start, and so not opened
  // How long a start waits for directories that another process uses.
  std::optional<std::chrono::steady_clock::time_point> unlocked_by_;
  std::atomic<std::size_t> given_up_{0};  // threads at a directory that never came back
  const std::shared_ptr<SharedDevices> devices_ = std::make_shared<SharedDevices>();
  bool formatted_ = false;
  mutable std::mutex mutex_;  // guards what follows
  std::weak_ptr<DiskWatch> new_disk_;  // of the last job at a new disk; there while the job runs
  std::shared_ptr<const ClusterMap> map_;
  std::vector<std::shared_ptr<Slot>> slots_;    // of the map, and one that was prepared
  std::vector<std::shared_ptr<Volume>> unplaced_;  // of a start that failed
  std::vector<std::shared_ptr<Slot>> retired_;  // closed; calls under way may still use them
};

template <class T>
Result<T> LocalStore::wait(Task<T> task) {
  std::promise<Result<T>> promise;
  auto future = promise.get_future();
  boost::asio::co_spawn(io_.at(0), std::move(task),
                        [&promise](std::exception_ptr error, Result<T> result) {
                          if (error) result = error_of_exception("a call to a volume", error);
                          promise.set_value(std::move(result));
                        });
  return future.get();
}

}  // namespace penstock
