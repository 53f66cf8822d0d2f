#include "server/node/stall_watch.h"

#include "penstock/caught.h"

namespace penstock {

void StallWatch::add(const std::shared_ptr<Volume>& volume) {
  const std::lock_guard lock(mutex_);
  volumes_.push_back(volume);
}

void StallWatch::remove(const std::shared_ptr<Volume>& volume) {
  const std::lock_guard lock(mutex_);
  std::erase(volumes_, volume);
}

void StallWatch::start() {
  thread_ = std::thread([this] { run(); });
}

void StallWatch::stop() {
  ending_.store(true);
  if (thread_.joinable()) thread_.join();
}

void StallWatch::run() {
  while (!ending_.load()) {
    {
      const std::lock_guard lock(mutex_);
      for (const auto& volume : volumes_) {
        try {
          volume->look_for_stall();
        } catch (...) {
          report_exception("a look at the calls of a disk");
        }
      }
    }
    std::this_thread::sleep_for(limits::kDiskLook);
  }
}

}  // namespace penstock
