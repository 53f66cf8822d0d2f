// What the calls of one connection hold of its server: so many of them, and so many bytes of
// requests and answers, in all and of one volume. Given back when an answer has left.
// Thread-safety: one executor.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "penstock/limits.h"
#include "penstock/types.h"
#include "penstock/wakeup.h"

namespace penstock {

class CallRoom : public std::enable_shared_from_this<CallRoom> {
 public:
  // `under_way`: counts the calls of several rooms; may be null.
  explicit CallRoom(std::shared_ptr<std::atomic<std::uint64_t>> under_way = nullptr)
      : under_way_(std::move(under_way)) {}

  // Gives back what it holds when it is destroyed.
  class Hold {
   public:
    Hold(std::shared_ptr<CallRoom> room, VolumeId volume, std::size_t bytes)
        : room_(std::move(room)), volume_(volume), bytes_(bytes) {
      room_->change(volume_, bytes_, 1);
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      room_->change(volume_, bytes_, -1);
      room_->freed_.notify();
    }

   private:
    const std::shared_ptr<CallRoom> room_;
    const VolumeId volume_;
    const std::size_t bytes_;
  };
  using Held = std::shared_ptr<const Hold>;

  // May this volume have so much more, whatever the others hold?
  bool fits_volume(VolumeId volume, std::size_t bytes) const {
    const auto at = of_volume_.find(volume);
    if (at == of_volume_.end()) return true;
    return at->second.calls < limits::kCallsPerConnection / 2 &&
           at->second.bytes + bytes <= limits::kCallBytesPerVolume;
  }
  bool fits(std::size_t bytes) const {
    return all_.calls < limits::kCallsPerConnection &&
           all_.bytes + bytes <= limits::kCallBytesPerConnection;
  }
  Held hold(VolumeId volume, std::size_t bytes) {
    return std::make_shared<const Hold>(shared_from_this(), volume, bytes);
  }
  // Until something was given back.
  Awaitable<void> wait() const { return freed_.wait(); }
  void wake() const { freed_.notify(); }
  std::size_t calls() const { return all_.calls; }

 private:
  struct Use {
    std::size_t calls = 0;
    std::size_t bytes = 0;
  };
  void change(VolumeId volume, std::size_t bytes, int by) {
    const auto change_one = [bytes, by](Use& use) {
      use.calls += static_cast<std::size_t>(by);
      use.bytes += static_cast<std::size_t>(by) * bytes;
    };
    change_one(all_);
    if (under_way_) under_way_->fetch_add(static_cast<std::uint64_t>(by));
    Use& use = of_volume_[volume];
    change_one(use);
    if (use.calls == 0) of_volume_.erase(volume);
  }

  const std::shared_ptr<std::atomic<std::uint64_t>> under_way_;
  Use all_;
  std::unordered_map<VolumeId, Use> of_volume_;
  Wakeup freed_;
};

}  // namespace penstock
