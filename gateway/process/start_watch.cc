#include "gateway/process/start_watch.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <system_error>

#include "gateway/process/stop_limit.h"
#include "penstock/log.h"

namespace penstock {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{250};  // for signals, this often
constexpr seconds kFirstWord{5};                 // then after twice as long, and so on
constexpr seconds kLongestSilence{60};
constexpr seconds kGrace{3};  // a start that is over by then is followed by an orderly end

bool is_signal_pending() {
  sigset_t pending;
  sigemptyset(&pending);
  return sigpending(&pending) == 0 &&
         (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

std::string seconds_since(steady_clock::time_point begin) {
  const auto passed = std::chrono::duration_cast<seconds>(steady_clock::now() - begin);
  return std::to_string(passed.count());
}

// All on the disks is as a kill would leave it, which the next start takes up.
[[noreturn]] void end_unstarted(const char* waits_for) {
  log_event(LogLevel::warn, "stopped",
            {{"reason", "a signal, before the start was over"}, {"waited_for", waits_for}});
  exit_now(kExitStuck);
}

}  // namespace

StartWatch::StartWatch(const char* waits_for) {
  try {
    thread_ = std::thread([this, waits_for] { watch(waits_for); });
  } catch (const std::system_error&) {  // no thread is to be had: the start itself will say so
  }
}

StartWatch::~StartWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  end_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void StartWatch::watch(const char* waits_for) {
  const auto begin = steady_clock::now();
  seconds silence = kFirstWord;
  auto next_word = begin + silence;
  std::optional<steady_clock::time_point> end_at;
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, kLook, [this] { return over_; })) {
    const auto now = steady_clock::now();
    if (!end_at && is_signal_pending()) end_at = now + kGrace;
    if (end_at && now >= *end_at) end_unstarted(waits_for);
    if (now < next_word) continue;
    log_event(
        LogLevel::warn, "start_takes_long",
        {{"after_s", seconds_since(begin)},
         {"waits_for", waits_for},
         {"meaning", "what does not answer holds it up for ever: SIGTERM or Ctrl-C ends it"}});
    silence = std::min(2 * silence, kLongestSilence);
    next_word = now + silence;
  }
}

}  // namespace penstock
