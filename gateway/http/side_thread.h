// A thread beside the requests, for work on files that may hang: stop() waits for it only so long
// and then leaves it behind.
// Thread-safety: poke() from any thread; stop() and the destructor from the owner's.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace penstock {

class SideThread {
 public:
  // Runs `step` each `every`, and after each poke(); one at a time. It owns all that it touches,
  // since it may outlive this object. What it throws is logged.
  SideThread(std::string name, std::chrono::milliseconds every, std::function<void()> step);
  ~SideThread();  // stop() with a patience of a second
  void poke();
  // After one last step. False: it did not end in time and was left behind.
  bool stop(std::chrono::milliseconds patience);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace penstock
