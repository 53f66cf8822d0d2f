// One queue per key inside the process: updates of one register go one after another, so that 32
// racing writers through one gateway make no duel. First in, first out; bounded.
// Thread-safety: any thread; a waiter resumes on its own executor.
#pragma once
#include <array>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>

#include "penstock/async.h"
#include "penstock/counted_mutex.h"
#include "penstock/register_value.h"

namespace penstock {

class KeyQueue {
  struct Waiter;

 public:
  // The turn of one update; the next one begins when it is destroyed. Outlived by its queue.
  class Turn {
   public:
    Turn() = default;
    Turn(KeyQueue& queue, RegisterKey key) : queue_(&queue), key_(std::move(key)) {}
    Turn(Turn&& other) noexcept
        : queue_(std::exchange(other.queue_, nullptr)), key_(std::move(other.key_)) {}
    Turn& operator=(Turn&& other) noexcept {
      std::swap(queue_, other.queue_);
      std::swap(key_, other.key_);
      return *this;
    }
    ~Turn() {
      if (queue_ != nullptr) queue_->next(key_);
    }

   private:
    KeyQueue* queue_ = nullptr;
    RegisterKey key_;
  };

  explicit KeyQueue(Clock& clock) : clock_(clock) {}
  // Errors: overloaded - too many wait for this key; unavailable - not its turn by `deadline`.
  Task<Turn> enter(RegisterKey key, Deadline deadline);

 private:
  struct Hash {
    std::size_t operator()(const RegisterKey& key) const;
  };
  using Waiters = std::deque<std::shared_ptr<Waiter>>;

  // Null: it is the caller's turn at once.
  Result<std::shared_ptr<Waiter>> join(const RegisterKey& key);
  void next(const RegisterKey& key);
  // The end of a wait: false if the turn had come before. Then the caller has it.
  bool give_up(const RegisterKey& key, const std::shared_ptr<Waiter>& waiter);

  // Of the keys that have the same hash, modulo the number of parts.
  struct Part {
    CountedMutex mutex{LockName::updates};                  // guards the next one
    std::unordered_map<RegisterKey, Waiters, Hash> queues;  // of keys being updated
  };
  Part& part_of(const RegisterKey& key) { return parts_[Hash()(key) % parts_.size()]; }

  Clock& clock_;
  std::array<Part, 16> parts_;
};

}  // namespace penstock
