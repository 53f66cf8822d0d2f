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
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// Is a call under way?
bool StallWatch::look() {
  bool busy = false;
  for (const auto& volume : volumes_) {
    try {
      busy = volume->look_for_stall() || busy;
    } catch (...) {
      report_exception("a look at the calls of a disk");
    }
  }
  return busy;
}

// A call that begins between two looks is seen before it is late.
void StallWatch::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const auto pause = look() ? limits::kDiskLook : limits::kDiskLate;
    ends_.wait_for(lock, pause, [this] { return ending_; });
  }
}

}  // namespace penstock
