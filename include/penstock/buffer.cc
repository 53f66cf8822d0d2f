#include "penstock/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdlib>
#include <new>

#include "penstock/assert.h"
#include "penstock/counted_mutex.h"

namespace penstock {
namespace {
constexpr std::array<std::size_t, 4> kClasses = {16 << 10, 64 << 10, 256 << 10, 512 << 10};
constexpr std::size_t kAlignment = 4096;
// The largest class comes from huge pages, four of one: with pages of 4 KiB a direct write of
// 512 KiB pins 128 of them one by one, and whoever reads the bytes needs 128 translations.
constexpr std::size_t kHugeClass = kClasses.size() - 1;
constexpr std::size_t kHugePage = 2 << 20;
constexpr std::size_t kPartsOfPage = kHugePage / kClasses[kHugeClass];
static_assert(kHugePage == kPartsOfPage * kClasses[kHugeClass]);

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
std::byte* huge_page_of(std::byte* part) {
  return part - reinterpret_cast<std::uintptr_t>(part) % kHugePage;
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

namespace {
// To the system: of the largest class a whole huge page.
void release(std::byte* memory, std::size_t index) {
  if (index == kHugeClass) {
    ::munmap(memory, kHugePage);
  } else {
    std::free(memory);
  }
}

// Idle buffers by class. What is not taken lies at the bottom of its list. Thread-safety: none; who
// holds them locks.
class IdleBuffers {
 public:
  explicit IdleBuffers(std::size_t keep_bytes) : keep_bytes_(keep_bytes) {}
  IdleBuffers(const IdleBuffers&) = delete;
  IdleBuffers& operator=(const IdleBuffers&) = delete;
  // Nothing is in use any more: the buffers keep it. So all parts of each huge page are here.
  ~IdleBuffers() {
    PENSTOCK_ASSERT(split_.empty());
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      for (std::byte* memory : lists_[i]) release(memory, i);
    }
  }
  // Null: there is none.
  std::byte* take(std::size_t index) {
    if (index != kHugeClass) return take_last(index);
    if (split_.empty()) {
      std::byte* const page = take_last(index);
      return page == nullptr ? nullptr : split(page);
    }
    // Of the page with the fewest: so others become idle as a whole.
    const auto fewest = std::ranges::min_element(split_, {}, &SplitPage::idle_parts);
    std::byte* const part = fewest->take();
    --split_parts_;
    if (fewest->idle_parts() == 0) split_.erase(fewest);
    return part;
  }
  // Its first part; the others are idle.
  std::byte* split(std::byte* page) {
    SplitPage& parts = split_.emplace_back(page);
    parts.idle.set();
    split_parts_ += kPartsOfPage - 1;
    return parts.take();
  }
  // Of the smaller classes; false: there is no room.
  bool keep(std::byte* memory, std::size_t index) {
    if (bytes() + kClasses[index] > keep_bytes_) return false;
    lists_[index].push_back(memory);
    return true;
  }
  void keep_part(std::byte* part) {
    std::byte* const page = huge_page_of(part);
    auto found = std::ranges::find(split_, page, &SplitPage::page);
    if (found == split_.end()) found = split_.insert(found, SplitPage(page));
    found->idle.set(static_cast<std::size_t>(part - page) / kClasses[kHugeClass]);
    ++split_parts_;
    if (!found->idle.all()) return;
    split_parts_ -= kPartsOfPage;
    split_.erase(found);
    lists_[kHugeClass].push_back(page);
  }
  // A whole huge page, if too much is idle; else null.
  std::byte* take_surplus() { return bytes() > keep_bytes_ ? take_last(kHugeClass) : nullptr; }
  // One that was idle since this was last null, which it is if there is none.
  std::byte* take_unneeded(std::size_t index) {
    auto& list = lists_[index];
    if (least_[index] == 0) {
      least_[index] = list.size();
      return nullptr;
    }
    --least_[index];
    std::byte* const memory = list.front();
    list.erase(list.begin());
    return memory;
  }
  std::size_t bytes() const {
    std::size_t sum = lists_[kHugeClass].size() * kHugePage + split_parts_ * kClasses[kHugeClass];
    for (std::size_t i = 0; i < kHugeClass; ++i) sum += lists_[i].size() * kClasses[i];
    return sum;
  }

 private:
  // Some of its parts are idle, and some in use.
  struct SplitPage {
    explicit SplitPage(std::byte* of) : page(of) {}
    std::size_t idle_parts() const { return idle.count(); }
    // Pre: one is idle.
    std::byte* take() {
      std::size_t part = 0;
      while (!idle.test(part)) ++part;
      idle.reset(part);
      return page + part * kClasses[kHugeClass];
    }
    std::byte* page;
    std::bitset<kPartsOfPage> idle;
  };
  // Null: there is none.
  std::byte* take_last(std::size_t index) {
    auto& list = lists_[index];
    if (list.empty()) return nullptr;
    std::byte* const memory = list.back();
    list.pop_back();
    least_[index] = std::min(least_[index], list.size());
    return memory;
  }
  using List = std::vector<std::byte*>;
  std::array<List, kClasses.size()> lists_;  // of the largest class: whole huge pages
  std::vector<SplitPage> split_;
  std::size_t split_parts_ = 0;                       // idle ones of split_
  std::array<std::size_t, kClasses.size()> least_{};  // in lists_, since take_unneeded() was null
  const std::size_t keep_bytes_;
};

// `part` has a `mutex`, and `idle` that it guards; it is not held while the system gets its memory.
template <class Part>
void trim_part(Part& part) {
  const auto take = [&part](std::size_t index) {
    const CountedLock lock(part.mutex);
    return part.idle.take_unneeded(index);
  };
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    while (std::byte* const memory = take(i)) release(memory, i);
  }
}
}  // namespace

// What all threads share: the buffers that no thread keeps for itself.
struct BufferPool::State {
  explicit State(std::size_t keep) : idle(keep) {}
  std::byte* take(std::size_t index) {
    const CountedLock lock(mutex);
    if (std::byte* const memory = idle.take(index)) return memory;
    if (index != kHugeClass) return nullptr;
    return idle.split(map_huge_page());
  }
  void give_back(std::byte* memory, std::size_t index) {
    if (index == kHugeClass) return give_back_part(memory);
    if (index < kHugeClass) {
      const CountedLock lock(mutex);
      if (idle.keep(memory, index)) return;
    }
    std::free(memory);
  }
  void give_back_part(std::byte* part) {
    std::byte* surplus = nullptr;
    {
      const CountedLock lock(mutex);
      idle.keep_part(part);
      surplus = idle.take_surplus();
    }
    if (surplus != nullptr) release(surplus, kHugeClass);
  }
  CountedMutex mutex{LockName::buffers};  // guards the next one
  IdleBuffers idle;
};

// The small buffers that one thread took last and will take again, without a look at what the
// others share. A buffer comes back to the thread that took it, and keeps its part alive.
struct BufferPool::ThreadState {
  ThreadState(std::shared_ptr<State> shared_in, std::size_t keep)
      : shared(std::move(shared_in)), idle(keep) {}
  // Null: allocate it.
  std::byte* take(std::size_t index) {
    if (index < kHugeClass) {
      const CountedLock lock(mutex);
      if (std::byte* const memory = idle.take(index)) return memory;
    }
    return index < kClasses.size() ? shared->take(index) : nullptr;
  }
  void give_back(std::byte* memory, std::size_t index) {
    if (index < kHugeClass) {
      const CountedLock lock(mutex);
      if (idle.keep(memory, index)) return;
    }
    shared->give_back(memory, index);
  }
  const std::shared_ptr<State> shared;
  CountedMutex mutex{LockName::buffers};  // guards the next one
  IdleBuffers idle;
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

void BufferPool::trim() {
  trim_part(*state_);
  threads_.all([](const std::shared_ptr<ThreadState>& part) { trim_part(*part); });
}

std::size_t BufferPool::idle_bytes() const {
  std::size_t sum = 0;
  {
    const CountedLock lock(state_->mutex);
    sum = state_->idle.bytes();
  }
  threads_.all([&sum](const std::shared_ptr<ThreadState>& part) {
    const CountedLock lock(part->mutex);
    sum += part->idle.bytes();
  });
  return sum;
}

}  // namespace penstock
