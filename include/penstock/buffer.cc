#include "penstock/buffer.h"

#include <array>
#include <cstdlib>
#include <mutex>
#include <new>

#include "penstock/assert.h"

namespace penstock {
namespace {
constexpr std::array<std::size_t, 4> kClasses = {16 << 10, 64 << 10, 256 << 10, 1 << 20};
constexpr std::size_t kAlignment = 4096;

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

struct BufferPool::State {
  explicit State(std::size_t keep) : keep_bytes(keep) {}
  ~State() {
    for (auto& list : idle) {
      for (std::byte* memory : list) std::free(memory);
    }
  }
  void give_back(std::byte* memory, std::size_t index) {
    {
      std::lock_guard lock(mutex);
      if (index < kClasses.size() && idle_bytes + kClasses[index] <= keep_bytes) {
        idle[index].push_back(memory);
        idle_bytes += kClasses[index];
        return;
      }
    }
    std::free(memory);
  }
  mutable std::mutex mutex;
  std::array<std::vector<std::byte*>, kClasses.size()> idle;
  std::size_t idle_bytes = 0;
  std::size_t keep_bytes;
};

BufferPool::BufferPool(std::size_t keep_bytes) : state_(std::make_shared<State>(keep_bytes)) {}
BufferPool::~BufferPool() = default;

Buffer BufferPool::get(std::size_t size) {
  const std::size_t index = class_of(size);
  std::byte* memory = nullptr;
  if (index < kClasses.size()) {
    std::lock_guard lock(state_->mutex);
    auto& list = state_->idle[index];
    if (!list.empty()) {
      memory = list.back();
      list.pop_back();
      state_->idle_bytes -= kClasses[index];
    }
  }
  if (memory == nullptr) memory = allocate(index < kClasses.size() ? kClasses[index] : size);
  auto deleter = [state = state_, index](std::byte* bytes) { state->give_back(bytes, index); };
  return Buffer(std::shared_ptr<std::byte[]>(memory, std::move(deleter)), size);
}

std::size_t BufferPool::idle_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->idle_bytes;
}

}  // namespace penstock
