// How many coroutines of connections still run, for who must not take their threads away before
// they have ended: one that waits for its next try holds itself, and would stay for ever.
// Thread-safety: any thread.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "penstock/types.h"

namespace penstock {

class RunningLinks {
 public:
  // One coroutine, while it exists.
  class Hold {
   public:
    explicit Hold(std::shared_ptr<RunningLinks> links) : links_(std::move(links)) {
      links_->change(1);
    }
    Hold(Hold&& other) noexcept = default;
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (links_) links_->change(-1);
    }

   private:
    std::shared_ptr<RunningLinks> links_;
  };

  // Blocks until there is none, at most so long.
  void wait_none(Duration patience) {
    std::unique_lock lock(mutex_);
    none_.wait_for(lock, patience, [this] { return count_ == 0; });
  }

 private:
  void change(int by) {
    const std::lock_guard lock(mutex_);
    count_ += by;
    if (count_ == 0) none_.notify_all();
  }

  std::mutex mutex_;  // guards the next one
  int count_ = 0;
  std::condition_variable none_;
};

}  // namespace penstock
