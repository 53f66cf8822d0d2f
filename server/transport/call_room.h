// What the calls of one connection hold of its server: so many of them, and so many bytes of their
// requests and short answers, of pieces of fragments and of lists, in all and of one volume. What a
// request holds is given back when there is an answer, and the rest when that has left. So a caller
// that has an answer knows that there is room for another request.
//
// No volume gets more than its share, one part of volumes + 1: disks that hang, however many, leave
// room for the others. What is answered at once, without a volume (pings, the status, refusals),
// has some room of its own, which the volumes cannot take.
// Thread-safety: one executor.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "penstock/limits.h"
#include "penstock/memory_budget.h"
#include "penstock/types.h"
#include "penstock/wakeup.h"
#include "server/transport/byte_line.h"

namespace penstock {

class CallRoom : public std::enable_shared_from_this<CallRoom> {
 public:
  // `under_way`: counts the calls of several rooms; may be null.
  explicit CallRoom(std::shared_ptr<std::atomic<std::uint64_t>> under_way = nullptr)
      : under_way_(std::move(under_way)) {}

  // Gives back what it holds when it is destroyed.
  class Hold {
   public:
    // `volume`: nullopt: it is answered at once.
    Hold(std::shared_ptr<CallRoom> room, std::optional<VolumeId> volume, std::size_t bytes,
         MemoryBudget::Lease lease = {})
        : room_(std::move(room)), volume_(volume), bytes_(bytes), lease_(std::move(lease)) {
      room_->change(volume_, bytes_, 1);
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      room_->change(volume_, bytes_, -1);
      room_->freed_.notify();
    }
    // So long an answer is to come.
    void expect(std::size_t bytes, ByteLine::Held room, MemoryBudget::Lease lease) {
      expected_ = bytes;
      answer_ = std::move(room);
      answer_lease_ = std::move(lease);
    }
    // The answer is there. `call_bytes`: what the call itself still holds.
    void answered(std::size_t call_bytes, std::size_t answer_bytes) {
      if (answer_) answer_->shrink_to(answer_bytes);
      answer_lease_.shrink_to(answer_bytes);
      const std::size_t more = answer_bytes - std::min(answer_bytes, expected_);
      room_->change(volume_, bytes_, -1);
      bytes_ = call_bytes + more;
      room_->change(volume_, bytes_, 1);
      // It is here in any case.
      if (lease_.bytes() > 0 && bytes_ > lease_.bytes()) (void)lease_.grow(bytes_ - lease_.bytes());
      lease_.shrink_to(bytes_);
      room_->freed_.notify();
    }

   private:
    const std::shared_ptr<CallRoom> room_;
    const std::optional<VolumeId> volume_;
    std::size_t bytes_;
    MemoryBudget::Lease lease_;
    std::size_t expected_ = 0;  // of the answer
    ByteLine::Held answer_;
    MemoryBudget::Lease answer_lease_;
  };
  using Held = std::shared_ptr<Hold>;

  // How many volumes share it.
  void set_volumes(std::size_t count) {
    volumes_ = count;
    pieces_->set_bounds(piece_bounds());
    lists_->set_bounds(list_bounds());
  }
  // May this volume have one more call, of so many bytes?
  bool fits(VolumeId volume, std::size_t bytes) const {
    if (all_.calls - at_once_.calls >= limits::kCallsPerConnection) return false;
    if (all_.bytes - at_once_.bytes + bytes > limits::kCallBytesPerConnection) return false;
    const auto at = of_volume_.find(volume);
    if (at == of_volume_.end()) return true;
    return at->second.calls < share(limits::kCallsPerConnection, limits::kVolumeCallsMin) &&
           at->second.bytes + bytes <=
               share(limits::kCallBytesPerConnection, limits::kVolumeCallBytesMin);
  }
  // What answers hold from before their volume is asked until they have left.
  ByteLine& pieces() { return *pieces_; }
  ByteLine& lists() { return *lists_; }
  // May one more be answered at once?
  bool fits_at_once() const {
    return at_once_.calls < limits::kAnswersAtOnce && at_once_.bytes < limits::kAnswersAtOnceBytes;
  }
  Held hold(VolumeId volume, std::size_t bytes, MemoryBudget::Lease lease = {}) {
    return std::make_shared<Hold>(shared_from_this(), volume, bytes, std::move(lease));
  }
  Held hold_at_once(std::size_t bytes) {
    return std::make_shared<Hold>(shared_from_this(), std::nullopt, bytes);
  }
  // Until something was given back.
  Awaitable<void> wait() const { return freed_.wait(); }
  Awaitable<void> wait(Clock& clock, BootTime until) const { return freed_.wait(clock, until); }
  void wake() const { freed_.notify(); }
  std::size_t calls() const { return all_.calls; }

 private:
  struct Use {
    std::size_t calls = 0;
    std::size_t bytes = 0;
  };
  std::size_t share(std::size_t all, std::size_t least) const {
    return std::max(all / (volumes_ + 1), least);
  }
  void change(std::optional<VolumeId> volume, std::size_t bytes, int by) {
    const auto change_one = [bytes, by](Use& use) {
      use.calls += static_cast<std::size_t>(by);
      use.bytes += static_cast<std::size_t>(by) * bytes;
    };
    change_one(all_);
    if (under_way_) under_way_->fetch_add(static_cast<std::uint64_t>(by));
    if (!volume) return change_one(at_once_);
    Use& use = of_volume_[*volume];
    change_one(use);
    if (use.calls == 0) of_volume_.erase(*volume);
  }

  ByteLine::Bounds piece_bounds() const {
    return {limits::kAnswerBytesPerConnection,
            share(limits::kAnswerBytesPerConnection, limits::kVolumeCallBytesMin)};
  }
  ByteLine::Bounds list_bounds() const {
    return {limits::kListBytesPerConnection,
            share(limits::kListBytesPerConnection, limits::kVolumeListBytesMin)};
  }

  const std::shared_ptr<std::atomic<std::uint64_t>> under_way_;
  std::size_t volumes_ = 1;
  const std::shared_ptr<ByteLine> pieces_ = std::make_shared<ByteLine>(piece_bounds());
  const std::shared_ptr<ByteLine> lists_ = std::make_shared<ByteLine>(list_bounds());
  Use all_;
  Use at_once_;
  std::unordered_map<VolumeId, Use> of_volume_;
  Wakeup freed_;
};

}  // namespace penstock
