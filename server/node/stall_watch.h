// Looks at the disk calls of volumes that are open, several times a second: one that does not
// return closes its volume as stalled. On a thread of its own, which makes no disk call.
// Thread-safety: any thread; start() once, stop() when nobody adds any more.
#pragma once
#include <atomic>
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

  std::atomic<bool> ending_{false};
  std::mutex mutex_;  // guards the next one; held while it is looked at
  std::vector<std::shared_ptr<Volume>> volumes_;
  std::thread thread_;
};

}  // namespace penstock
