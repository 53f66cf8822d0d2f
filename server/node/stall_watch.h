// Looks at the disk calls of volumes that are open, several times a second, and twice while none is
// under way: one that does not return closes its volume as stalled. On a thread of its own, which
// makes no disk call.
// Thread-safety: any thread; start() once, stop() when nobody adds any more.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/volume/volume.h"

namespace penstock {

class StallWatch {
 public:
  ~StallWatch() { stop(); }

  void add(const std::shared_ptr<Volume>& volume);
  // No look at the volume is under way when it returns: the volume may be closed.
  void remove(const std::shared_ptr<Volume>& volume);
  void start();
  // Joins the thread, if there is one. What begins to hang from then on is not looked for.
  void stop();

 private:
  void run();
  bool look();

  std::mutex mutex_;  // guards the next two; held while volumes are looked at
  std::condition_variable ends_;
  bool ending_ = false;
  std::vector<std::shared_ptr<Volume>> volumes_;
  std::thread thread_;
};

}  // namespace penstock
