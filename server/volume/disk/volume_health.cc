#include "server/volume/disk/volume_health.h"

namespace penstock {

void VolumeHealth::listen(std::function<void(const Error&)> listener) {
  std::lock_guard lock(listener_mutex_);
  if (!is_open()) {
    listener(refusal());
  } else {
    listener_ = std::move(listener);
  }
}

void VolumeHealth::stop_listening() {
  std::lock_guard lock(listener_mutex_);
  listener_ = nullptr;
}

bool VolumeHealth::close_with(State state, const Error& why) {
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::open) return false;
    state_ = state;
    reason_ = why.context;
    // `unavailable` also of a call that the watch refused behind one that hangs. What was
    // acknowledged before is synced.
    disk_sound_ = why.thrown || why.code == Errc::full || why.code == Errc::unavailable;
    open_.store(false, std::memory_order_release);
  }
  std::lock_guard lock(listener_mutex_);
  if (listener_) listener_(refusal());
  listener_ = nullptr;
  return true;
}

void VolumeHealth::hold(std::string why) {
  std::lock_guard lock(mutex_);
  if (state_ != State::open) return;
  reason_ = std::move(why);
  held_.store(true, std::memory_order_release);
}

void VolumeHealth::serve() {
  std::lock_guard lock(mutex_);
  if (state_ != State::open) return;
  reason_.clear();
  held_.store(false, std::memory_order_release);
}

VolumeHealth::State VolumeHealth::state() const {
  std::lock_guard lock(mutex_);
  return state_ == State::open && is_held() ? State::closed : state_;
}

std::string VolumeHealth::reason() const {
  std::lock_guard lock(mutex_);
  return reason_;
}

bool VolumeHealth::is_disk_sound() const {
  std::lock_guard lock(mutex_);
  return disk_sound_;
}

Error VolumeHealth::refusal() const {
  return fail(Errc::unavailable, "the volume is closed: " + reason());
}

}  // namespace penstock
