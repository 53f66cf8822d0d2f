// The last resort of an orderly end: a process that has not ended limits::kStopMax after it began
// to stop says what it waited for, and is cut off. Thread-safety: any thread.
#pragma once
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "gateway/process/stack_options.h"
#include "penstock/limits.h"
#include "penstock/log.h"

namespace penstock {

// The end of a process with threads that cannot be waited for.
[[noreturn]] inline void exit_now(int code) {
  flush_log();
  ::_exit(code);
}

class StopLimit {
 public:
  // What is waited for from now on: a literal.
  void waits_for(const char* step) { step_->store(step); }
  // Once, on a thread that waits for nothing else.
  void begin() {
    std::thread([step = step_] {
      std::this_thread::sleep_for(limits::kStopMax);
      const char* const waited_for = step->load();
      if (waited_for == nullptr) return;  // it has ended, and the process does
      log_event(LogLevel::error, "stop_cut_off",
                {{"after_s", std::to_string(std::chrono::seconds(limits::kStopMax).count())},
                 {"waited_for", waited_for}});
      exit_now(kExitStuck);
    }).detach();
  }
  void ended() { step_->store(nullptr); }

 private:
  const std::shared_ptr<std::atomic<const char*>> step_ =
      std::make_shared<std::atomic<const char*>>("requests");
};

}  // namespace penstock
