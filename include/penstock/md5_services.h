// MD5 for the bodies of a process: one service for every kThreadsEach I/O threads. One thread fills
// its lanes better the more streams it has, but hashes no more than one core can.
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "penstock/md5_service.h"
#include "penstock/runtime.h"
#include "penstock/thread_parts.h"

namespace penstock {

// Thread-safety: any thread.
class Md5Services {
 public:
  // For readers and writers together; of uploads alone, two or three I/O threads keep one busy.
  static constexpr std::size_t kThreadsEach = 8;

  explicit Md5Services(std::size_t io_threads) {
    const std::size_t count = (std::max<std::size_t>(io_threads, 1) - 1) / kThreadsEach + 1;
    for (std::size_t i = 0; i < count; ++i) services_.push_back(std::make_unique<One>());
  }

  // Always the same one for a thread.
  Md5Service& of_this_thread() { return services_[thread_number() % services_.size()]->service; }
  std::size_t size() const { return services_.size(); }

 private:
  struct One {
    ThreadWorker worker{"md5", 1};
    Md5Service service{worker, 1};
  };
  std::vector<std::unique_ptr<One>> services_;
};

}  // namespace penstock
