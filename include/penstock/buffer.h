// Memory that bodies travel in: aligned, pooled, counted against one budget for the process.
#pragma once
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "penstock/memory_budget.h"
#include "penstock/result.h"
#include "penstock/thread_parts.h"
#include "penstock/types.h"

namespace penstock {

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

// Recycles aligned memory in the size classes 16 KiB, 64 KiB, 256 KiB, 512 KiB: a fresh mapping per
// request costs more in page faults than the copy it saves. Keeps at most `keep_bytes` of idle
// memory, and besides the idle parts of huge pages of which a part is in use: three for each that
// is, at most. The rest goes back to the system, and with trim() what no request needed for a
// while. A 128th of `keep_bytes` is each thread's own, of the three smaller classes: what it takes
// and gives back there touches no memory of other threads. Thread-safety: all methods from any
// thread. A Buffer may outlive its pool.
class BufferPool {
 public:
  explicit BufferPool(std::size_t keep_bytes);
  ~BufferPool();
  // `size` bytes, 1 … 512 KiB, not cleared. Larger sizes are served, too, but not kept.
  Buffer get(std::size_t size);
  // Gives back to the system what was idle all the time since the last call. For a timer.
  void trim();
  std::size_t idle_bytes() const;

 private:
  struct State;
  struct ThreadState;
  using Threads = ThreadParts<std::shared_ptr<ThreadState>>;
  std::shared_ptr<State> state_;
  Threads threads_;
};

}  // namespace penstock
