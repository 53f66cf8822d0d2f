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

  // Errors: unavailable - closed or missing.
  Result<> check() const {
    if (is_open()) return {};
    return refusal();
  }
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  State state() const;
  std::string reason() const;
  // It is closed though its disk has not failed: by an exception (caught.h), or because a write
  // found no room. All is as a kill would have left it: the next start may take it back.
  bool is_disk_sound() const;

 private:
  Error refusal() const;

  std::atomic<bool> open_{true};
  mutable std::mutex mutex_;  // guards the next three
  State state_ = State::open;
  std::string reason_;
  bool disk_sound_ = false;
  std::mutex listener_mutex_;  // guards the next one; held while it runs
  std::function<void(const Error&)> listener_;
};

}  // namespace penstock
