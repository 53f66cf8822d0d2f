#include "tests/crash/children.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

namespace penstock::crash {

bool Children::fork(const std::string& what, std::size_t& slot) {
  while (running_.size() >= count_) wait_one();
  std::set<std::size_t> taken;
  for (const auto& [id, child] : running_) taken.insert(child.slot);
  slot = 0;
  while (taken.contains(slot)) ++slot;
  std::fflush(stdout);
  const pid_t id = ::fork();
  if (id < 0) {
    std::perror("fork");
    std::exit(1);
  }
  if (id == 0) {
    ::alarm(seconds_);
    return false;
  }
  running_.emplace(id, Child{slot, what});
  return true;
}

void Children::finish(bool good) {
  std::fflush(stdout);
  ::_exit(good ? 0 : 1);
}

void Children::wait_one() {
  int status = 0;
  const pid_t id = ::waitpid(-1, &status, 0);
  if (id < 0 && errno == EINTR) return;
  const auto found = running_.find(id);
  if (found == running_.end()) return;
  ++ended_;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++failed_;
  if (WIFSIGNALED(status)) {
    std::printf("%s: the process ended with %s\n", found->second.what.c_str(),
                WTERMSIG(status) == SIGALRM ? "a hang" : ::strsignal(WTERMSIG(status)));
  }
  running_.erase(found);
}

void Children::wait_all() {
  while (!running_.empty()) wait_one();
}

}  // namespace penstock::crash
