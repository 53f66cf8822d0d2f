// Whether a volume serves, and if not, why: decided once, for ever.
// Thread-safety: all methods from any thread.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "penstock/volume_client.h"

namespace penstock {

class VolumeHealth {
 public:
  using State = VolumeStatus::State;

  // `listener` is called once, by the first close_with(), on its thread; at once if that was
  // before.
  void listen(std::function<void(const Error&)> listener);
  // Forgets the listener; does not return while it runs.
  void stop_listening();
  // Only the first call counts; true for that one.
  bool close_with(State state, const Error& why);

  // Open, but not to serve yet: it waits for something, and why is told as if it were closed.
  void hold(std::string why);
  // It waits no more. Of one that is closed: nothing.
  void serve();
  bool is_held() const { return held_.load(std::memory_order_acquire); }

  // Errors: unavailable - closed or missing, or held.
  Result<> check() const {
    if (is_open() && !is_held()) return {};
    return refusal();
  }
  // The same for what one that is held does as well.
  Result<> check_open() const {
    if (is_open()) return {};
    return refusal();
  }
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  State state() const;
  std::string reason() const;
  // Its disk has not failed, even if it is closed: by an exception (caught.h), because a write
  // found no room (`full`), or for what says nothing of the disk (`unavailable`): a call hung, or
  // others refused the volume. All is as a kill would have left it: the next start may take it
  // back.
  bool is_disk_sound() const;

 private:
  Error refusal() const;

  std::atomic<bool> open_{true};
  std::atomic<bool> held_{false};
  mutable std::mutex mutex_;  // guards the next three
  State state_ = State::open;
  std::string reason_;  // why it is closed, or held
  bool disk_sound_ = true;
  std::mutex listener_mutex_;  // guards the next one; held while it runs
  std::function<void(const Error&)> listener_;
};

}  // namespace penstock
