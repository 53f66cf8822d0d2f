#include "server/node/identity_check.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "penstock/caught.h"

namespace penstock {

struct IdentityCheck::State {
  std::mutex mutex;
  std::condition_variable ended;
  bool running = false;
};

IdentityCheck::IdentityCheck(WorkerPool& threads)
    : state_(std::make_shared<State>()), worker_(threads.make_worker("identity", 1)) {}
IdentityCheck::~IdentityCheck() = default;

bool IdentityCheck::begin(const std::shared_ptr<Volume>& volume) {
  {
    const std::lock_guard lock(state_->mutex);
    if (std::exchange(state_->running, true)) return false;
  }
  worker_->submit([volume, shared = state_] {
    try {
      (void)volume->check_identity();  // what it finds, the volume's status tells
    } catch (...) {                    // says nothing of the disk; the next look does
      report_exception("a look at a directory");
    }
    const std::lock_guard lock(shared->mutex);
    shared->running = false;
    shared->ended.notify_all();
  });
  return true;
}

void IdentityCheck::wait(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(state_->mutex);
  state_->ended.wait_until(lock, until, [this] { return !state_->running; });
}

void IdentityCheck::abandon() {
  bool running = false;
  {
    const std::lock_guard lock(state_->mutex);
    running = state_->running;
  }
  if (running) worker_->abandon();
}

}  // namespace penstock
