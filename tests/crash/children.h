// Runs functions in forked copies of this process, a few at a time: a fork is a snapshot of
// everything that lies in memory, and what crashes there harms nobody. Only for a process with one
// thread.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

namespace penstock::crash {

class Children {
 public:
  // `seconds`: what a child may take before it is killed.
  Children(std::size_t count, unsigned seconds) : count_(count), seconds_(seconds) {}

  // Parent: waits for a free slot, forks, returns true. Child: returns false; it must end with
  // finish(). `slot`: below `count`; no two running children have the same. `what`: for messages.
  bool fork(const std::string& what, std::size_t& slot);
  [[noreturn]] static void finish(bool good);
  void wait_all();

  std::uint64_t ended() const { return ended_; }
  std::uint64_t failed() const { return failed_; }

 private:
  void wait_one();
  struct Child {
    std::size_t slot;
    std::string what;
  };
  const std::size_t count_;
  const unsigned seconds_;
  std::map<pid_t, Child> running_;
  std::uint64_t ended_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace penstock::crash
