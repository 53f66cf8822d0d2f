// What a process that serves volumes owns, whoever calls them: I/O threads and memory, the volumes,
// and a thread that looks after their directories.
//
//   ServerStack(options) → start() → begin_watch() … end_watch() → close()
//
// Ownership: owns all its parts; what it hands out is borrowed, and valid as long as it is.
// Order of destruction: whatever runs on the I/O threads or calls the volumes is destroyed before
// this object, and after base().io.stop(): then no coroutine runs while the parts go.
// Lifetime: after a close() that left something behind, this object must stay until the process
// ends: threads that are stuck in a disk still use it.
// Thread-safety: the calls from one thread; what the parts allow is said there.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "server/node/new_volume.h"
#include "server/node/process_base.h"
#include "server/node/store_start.h"

namespace penstock {

struct ServerOptions {
  ProcessOptions process;
  StoreOptions store;
  // The server's volumes are some of this cluster's (server_start.h); none: they are a whole store
  // (store_start.h).
  std::optional<ClusterId> member_of;
};

class ServerStack {
 public:
  // Starts the I/O threads, nothing else.
  explicit ServerStack(ServerOptions options);
  // Ends the watch, stops the I/O threads, closes the volumes if close() has not; waits for them
  // without an end.
  ~ServerStack();

  // Opens the volumes, or formats and opens them; once. Blocks. After an error only close() is left
  // to call. Errors: StoreStart::run()'s, or
  // ServerStart::run()'s.
  Result<> start();
  bool was_formatted() const { return formatted_; }

  ProcessBase& base() { return base_; }
  const StoreDirectories& directories() const { return directories_; }
  // Pre, of both: close() has not succeeded.
  VolumeSet& volumes() { return *volumes_; }
  NewVolume& new_volume() { return *new_volume_; }

  // VolumeSet::watch() from time to time, on a thread of its own; until end_watch(), which waits
  // for the look that is under way. end_watch_soon() does not.
  void begin_watch();
  void end_watch_soon();
  void end_watch();

  // Closes the volumes and says how many threads are left behind after `patience`
  // (VolumeSet::close()); 0: there are no volumes here any more. Again: 0. Pre: nobody calls a
  // volume or begins to; the watch has ended.
  std::size_t close(Duration patience);

 private:
  void look(bool at_directories);
  void watch();

  ServerOptions options_;
  ProcessBase base_;
  // Each uses those above it.
  StoreDirectories directories_;
  VolumeOpener opener_;
  StartNotes notes_;
  std::unique_ptr<VolumeSet> volumes_;  // null: closed
  std::unique_ptr<NewVolume> new_volume_;
  bool formatted_ = false;
  std::mutex watch_mutex_;  // guards the next one
  std::condition_variable watch_ending_;
  bool watch_ends_ = false;
  std::thread watcher_;
};

}  // namespace penstock
