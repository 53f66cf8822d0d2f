// State of which each thread has a part of its own, so that no request of one thread waits for a
// lock, or for a cache line, that those of all other threads take as well. A part is still shared:
// by threads whose numbers meet, and by who goes over all parts. So it keeps its own lock, which is
// nearly always free.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>

namespace penstock {

// 0, 1, 2 …, by the order in which threads ask.
inline std::size_t thread_number() {
  static std::atomic<std::size_t> threads{0};
  thread_local const std::size_t number = threads.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// Thread-safety: mine() and all() from any thread; that of a part is the part's matter.
template <class Part>
class ThreadParts {
 public:
  static constexpr std::size_t kParts = 32;

  Part& mine() { return parts_[thread_number() % kParts].part; }
  const Part& mine() const { return parts_[thread_number() % kParts].part; }
  template <class Function>
  void all(Function function) {
    for (auto& padded : parts_) function(padded.part);
  }
  template <class Function>
  void all(Function function) const {
    for (const auto& padded : parts_) function(padded.part);
  }

 private:
  struct alignas(64) Padded {
    Part part;
  };
  std::array<Padded, kParts> parts_;
};

}  // namespace penstock
