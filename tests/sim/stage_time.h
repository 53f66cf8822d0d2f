// The time of a directed schedule, what is done in it step by step, and what was found wrong.
#pragma once
#include <boost/asio/co_spawn.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/sim/directed.h"
#include "tests/sim/sim_time.h"

namespace penstock::sim {

class StageTime {
 public:
  void run_for(SimMicros time) {
    bool over = false;
    time_.after(time, [&over] { over = true; });
    time_.run_until([&over] { return over; }, time_.now() + time);
  }
  // Until `done`, at most a minute.
  bool run_until(const std::function<bool()>& done) {
    return time_.run_until(done, time_.now() + 60 * kSecond);
  }
  // Begins a call; filled once it has ended.
  template <class T>
  std::shared_ptr<std::optional<Result<T>>> start(Task<T> task) {
    auto result = std::make_shared<std::optional<Result<T>>>();
    auto keep = [result](std::exception_ptr, Result<T> value) {
      result->emplace(std::move(value));
    };
    boost::asio::co_spawn(time_.io(), std::move(task), std::move(keep));
    return result;
  }
  template <class T>
  Result<T> wait(Task<T> task) {
    const auto result = start(std::move(task));
    if (!run_until([result] { return result->has_value(); })) {
      return fail(Errc::timeout, "it hangs");
    }
    return std::move(**result);
  }
  SimTime& time() { return time_; }

  void expect(bool holds, std::string claim) {
    if (!holds) violations.push_back(std::move(claim));
  }
  Violations violations;

 protected:
  ~StageTime() = default;

 private:
  SimTime time_;
};

}  // namespace penstock::sim
