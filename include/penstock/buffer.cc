#include "penstock/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>

#include "penstock/assert.h"
#include "penstock/counted_mutex.h"

namespace penstock {
namespace {
constexpr std::array<std::size_t, 4> kClasses = {16 << 10, 64 << 10, 256 << 10, 1 << 20};
constexpr std::size_t kAlignment = 4096;
// The largest class comes two by two from one huge page: with pages of 4 KiB a direct write of
// 1 MiB pins 256 of them one by one, and whoever reads the bytes needs 256 translations.
constexpr std::size_t kHugeClass = kClasses.size() - 1;
constexpr std::size_t kHugePage = 2 << 20;
static_assert(kHugePage == 2 * kClasses[kHugeClass]);

std::size_t class_of(std::size_t size) {
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    if (size <= kClasses[i]) return i;
  }
  return kClasses.size();
}
std::byte* allocate(std::size_t size) {
  void* memory = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  if (memory == nullptr)
    throw std::bad_alloc();  // ends the process: bodies are bounded by MemoryBudget, not by this
  return static_cast<std::byte*>(memory);
}

// One huge page; where the system has none, the same bytes in small ones.
std::byte* map_huge_page() {
  void* mapped =
      ::mmap(nullptr, 2 * kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(mapped);
  const auto over = reinterpret_cast<std::uintptr_t>(begin) % kHugePage;
  std::byte* const page = over == 0 ? begin : begin + (kHugePage - over);
  if (page != begin) ::munmap(begin, static_cast<std::size_t>(page - begin));
  std::byte* const end = begin + 2 * kHugePage;
  ::munmap(page + kHugePage, static_cast<std::size_t>(end - page) - kHugePage);
  (void)::madvise(page, kHugePage, MADV_HUGEPAGE);  // an advice
  return page;
}
std::byte* huge_page_of(std::byte* half) {
  return half - reinterpret_cast<std::uintptr_t>(half) % kHugePage;
}
std::byte* other_half(std::byte* half) {
  std::byte* const page = huge_page_of(half);
  return half == page ? page + kClasses[kHugeClass] : page;
}
}  // namespace

Buffer Buffer::copy_of(ConstBytes bytes) {
  std::shared_ptr<std::byte[]> data(new std::byte[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), data.get());
  return Buffer(std::move(data), bytes.size());
}

Buffer Buffer::slice(std::size_t offset, std::size_t length) const {
  PENSTOCK_ASSERT(offset + length <= size_);
  return Buffer(std::shared_ptr<std::byte[]>(data_, data_.get() + offset), length);
}

Buffer Buffer::keeping(std::shared_ptr<const void> companion) const {
  using Both = std::pair<std::shared_ptr<std::byte[]>, std::shared_ptr<const void>>;
  const auto both = std::make_shared<Both>(data_, std::move(companion));
  return Buffer(std::shared_ptr<std::byte[]>(both, data_.get()), size_);
}

// What all threads share: the buffers that no thread keeps for itself.
struct BufferPool::State {
  explicit State(std::size_t keep) : keep_bytes(keep) {}
  // Nothing is in use any more: the buffers keep it.
  ~State() {
    for (std::size_t i = 0; i < kHugeClass; ++i) {
      for (std::byte* memory : idle[i]) std::free(memory);
    }
    for (std::byte* half : idle[kHugeClass]) {
      if (half == huge_page_of(half)) ::munmap(half, kHugePage);
    }
  }
  std::byte* take(std::size_t index) {
    const CountedLock lock(mutex);
    auto& list = idle[index];
    if (list.empty()) {
      if (index != kHugeClass) return nullptr;
      std::byte* const page = map_huge_page();
      keep(page + kClasses[index], index);
      return page;
    }
    std::byte* const memory = list.back();
    list.pop_back();
    idle_bytes -= kClasses[index];
    return memory;
  }
  void give_back(std::byte* memory, std::size_t index) {
    std::byte* unmapped = nullptr;
    {
      const CountedLock lock(mutex);
      if (index < kClasses.size() && idle_bytes + kClasses[index] <= keep_bytes) {
        return keep(memory, index);
      }
      if (index == kHugeClass) {
        auto& list = idle[index];
        const auto other = std::ranges::find(list, other_half(memory));
        if (other == list.end()) return keep(memory, index);  // its page is in use
        list.erase(other);
        idle_bytes -= kClasses[index];
        unmapped = huge_page_of(memory);
      }
    }
    if (unmapped == nullptr) {
      std::free(memory);
    } else {
      ::munmap(unmapped, kHugePage);
    }
  }
  // Pre: the mutex is held.
  void keep(std::byte* memory, std::size_t index) {
    idle[index].push_back(memory);
    idle_bytes += kClasses[index];
  }
  mutable CountedMutex mutex{LockName::buffers};  // guards the next two
  std::array<std::vector<std::byte*>, kClasses.size()> idle;
  std::size_t idle_bytes = 0;
  const std::size_t keep_bytes;
};

// The small buffers that one thread took last and will take again, without a look at what the
// others share. A buffer comes back to the thread that took it, and keeps its part alive.
struct BufferPool::ThreadState {
  ThreadState(std::shared_ptr<State> shared_in, std::size_t keep)
      : shared(std::move(shared_in)), keep_bytes(keep) {}
  ~ThreadState() {
    for (auto& list : idle) {
      for (std::byte* memory : list) std::free(memory);
    }
  }
  // Null: allocate it.
  std::byte* take(std::size_t index) {
    if (index < kHugeClass) {
      const CountedLock lock(mutex);
      auto& list = idle[index];
      if (!list.empty()) {
        std::byte* const memory = list.back();
        list.pop_back();
        idle_bytes -= kClasses[index];
        return memory;
      }
    }
    return index < kClasses.size() ? shared->take(index) : nullptr;
  }
  void give_back(std::byte* memory, std::size_t index) {
    if (index < kHugeClass) {
      const CountedLock lock(mutex);
      if (idle_bytes + kClasses[index] <= keep_bytes) {
        idle[index].push_back(memory);
        idle_bytes += kClasses[index];
        return;
      }
    }
    shared->give_back(memory, index);
  }
  const std::shared_ptr<State> shared;
  CountedMutex mutex{LockName::buffers};  // guards the next two
  std::array<std::vector<std::byte*>, kHugeClass> idle;
  std::size_t idle_bytes = 0;
  const std::size_t keep_bytes;
};

BufferPool::BufferPool(std::size_t keep_bytes) {
  // All threads together keep a quarter, if there are so many.
  const std::size_t own = keep_bytes / 4 / Threads::kParts;
  state_ = std::make_shared<State>(keep_bytes - own * Threads::kParts);
  threads_.all([&](std::shared_ptr<ThreadState>& part) {
    part = std::make_shared<ThreadState>(state_, own);
  });
}
BufferPool::~BufferPool() = default;

Buffer BufferPool::get(std::size_t size) {
  const std::size_t index = class_of(size);
  const std::shared_ptr<ThreadState>& mine = threads_.mine();
  std::byte* memory = mine->take(index);
  if (memory == nullptr) memory = allocate(index < kClasses.size() ? kClasses[index] : size);
  auto deleter = [part = mine, index](std::byte* bytes) { part->give_back(bytes, index); };
  return Buffer(std::shared_ptr<std::byte[]>(memory, std::move(deleter)), size);
}

std::size_t BufferPool::idle_bytes() const {
  std::size_t sum = 0;
  {
    const CountedLock lock(state_->mutex);
    sum = state_->idle_bytes;
  }
  threads_.all([&sum](const std::shared_ptr<ThreadState>& part) {
    const CountedLock lock(part->mutex);
    sum += part->idle_bytes;
  });
  return sum;
}

}  // namespace penstock
