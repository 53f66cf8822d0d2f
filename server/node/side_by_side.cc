#include "server/node/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "penstock/caught.h"

namespace penstock {

Result<> run_side_by_side(std::size_t count, std::size_t at_once,
                          const std::function<Result<>(std::size_t index)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::map<std::size_t, Error> errors;  // by index
  const auto run = [&] {
    for (std::size_t index = next++; index < count; index = next++) {
      Result<> done;
      try {
        done = work(index);
      } catch (...) {
        done = error_of_exception("work beside others");
      }
      if (done) continue;
      next = count;
      const std::lock_guard lock(mutex);
      errors.emplace(index, done.error());
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(at_once, count); ++i) others.emplace_back(run);
    run();
  }
  if (errors.empty()) return {};
  return errors.begin()->second;
}

}  // namespace penstock
