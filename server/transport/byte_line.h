// Bytes that the calls of one connection hold, in all and for one volume. Who finds no room waits
// in line, for volumes that have all of their part behind their own calls only: a disk that hangs
// holds up nobody else's. Whoever is the only one, of all or of a volume, has room for anything.
// Thread-safety: one executor.
#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>

#include "penstock/async.h"
#include "penstock/runtime.h"
#include "penstock/types.h"

namespace penstock {

class ByteLine : public std::enable_shared_from_this<ByteLine> {
 public:
  struct Bounds {
    std::size_t all = 0;
    std::size_t of_volume = 0;
  };
  explicit ByteLine(Bounds bounds) : bounds_(bounds) {}
  void set_bounds(Bounds bounds) {
    bounds_ = bounds;
    serve();
  }

  // Gives back what it holds when it is destroyed.
  class Hold {
   public:
    Hold(std::shared_ptr<ByteLine> line, VolumeId volume, std::size_t bytes)
        : line_(std::move(line)), volume_(volume), bytes_(bytes) {}
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { line_->give_back(volume_, bytes_); }
    // Gives back what it has beyond `bytes`.
    void shrink_to(std::size_t bytes) {
      if (bytes >= bytes_) return;
      line_->give_back(volume_, bytes_ - bytes);
      bytes_ = bytes;
    }

   private:
    const std::shared_ptr<ByteLine> line_;
    const VolumeId volume_;
    std::size_t bytes_;
  };
  using Held = std::unique_ptr<Hold>;

  // Errors: timeout - there was no room until then.
  Task<Held> take(VolumeId volume, std::size_t bytes, Clock& clock, BootTime until);
  std::size_t held_bytes() const { return all_; }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiter {
    std::uint64_t ticket = 0;
    VolumeId volume;
    std::size_t bytes = 0;
    Completion<Held> done;
  };
  bool fits(std::size_t bytes) const { return all_ == 0 || all_ + bytes <= bounds_.all; }
  bool fits_volume(VolumeId volume, std::size_t bytes) const;
  Held hold(VolumeId volume, std::size_t bytes);
  void give_back(VolumeId volume, std::size_t bytes);
  void serve();
  void leave(std::uint64_t ticket);

  Bounds bounds_;
  std::size_t all_ = 0;
  std::unordered_map<VolumeId, std::size_t> of_volume_;  // none of 0 bytes
  std::list<Waiter> waiting_;                            // in the order in which they came
  std::uint64_t last_ticket_ = 0;
};

}  // namespace penstock
