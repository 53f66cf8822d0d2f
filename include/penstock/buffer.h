// Memory that bodies travel in: aligned, pooled, counted against one budget for the process.
#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

// Bounds the bytes that all requests of the process may hold. At the bound a request is refused
// (`overloaded` -> 503 SlowDown), it never waits: waiting requests would hold connections and
// half-read bodies. Thread-safety: all methods from any thread.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}
  // A share of the budget; gives it back when destroyed.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Lease() {
      if (budget_ != nullptr) budget_->used_bytes_.fetch_sub(bytes_);
    }
    std::size_t bytes() const { return bytes_; }

   private:
    friend class MemoryBudget;  // one class in two halves
    Lease(MemoryBudget* budget, std::size_t bytes) : budget_(budget), bytes_(bytes) {}
    MemoryBudget* budget_ = nullptr;
    std::size_t bytes_ = 0;
  };
  // Errors: overloaded - the budget would be passed.
  Result<Lease> take(std::size_t bytes);
  std::size_t used_bytes() const { return used_bytes_.load(); }
  std::size_t limit_bytes() const { return limit_bytes_; }

 private:
  std::size_t limit_bytes_;
  std::atomic<std::size_t> used_bytes_{0};
};

class BufferPool;

// Shared, reference counted bytes, aligned to 4096 when taken from a pool (fit for O_DIRECT).
// Copying copies the reference. Writers fill it before they share it; afterwards it is read-only by
// convention.
class Buffer {
 public:
  Buffer() = default;
  static Buffer copy_of(ConstBytes bytes);
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  ConstBytes bytes() const { return {data_.get(), size_}; }
  MutBytes mutable_bytes() const { return {data_.get(), size_}; }
  explicit operator bool() const { return data_ != nullptr; }
  // The same memory, seen as [offset, offset + length).
  Buffer slice(std::size_t offset, std::size_t length) const;
  // The same memory; `companion` lives as long as this reference and its copies.
  Buffer keeping(std::shared_ptr<const void> companion) const;

 private:
  friend class BufferPool;
  Buffer(std::shared_ptr<std::byte[]> data, std::size_t size)
      : data_(std::move(data)), size_(size) {}
  std::shared_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

// Recycles aligned memory in the size classes 16 KiB, 64 KiB, 256 KiB, 1 MiB: a fresh mapping per
// request costs more in page faults than the copy it saves. Keeps at most `keep_bytes` of idle
// memory; the rest goes back to the system. Thread-safety: all methods from any thread. A Buffer
// may outlive its pool.
class BufferPool {
 public:
  explicit BufferPool(std::size_t keep_bytes);
  ~BufferPool();
  // `size` bytes, 1 … 1 MiB, not cleared. Larger sizes are served, too, but not kept.
  Buffer get(std::size_t size);
  std::size_t idle_bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace penstock
