// How people who run the store talk to its process: a Unix-domain socket in the store's directory,
// never TCP. Who may write to the file may speak (mode 0600): there is no other authentication.
//
// One question and one answer per connection, each one line of JSON that ends with a newline; a
// question has at most 8 KiB. One connection at a time; one that is silent for 5 s is closed.
// A directory whose disk hangs holds up nobody: each one's file is made and removed on a thread of
// its own, which is left behind if need be.
// Thread-safety: start() and stop() on one thread; the handler runs on a thread of its own and may
// block.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/result.h"

namespace penstock {

inline constexpr const char* kControlSocketName = "control.sock";
inline constexpr std::size_t kControlQuestionBytesMax = 8 << 10;

class ControlSocket {
 public:
  using Handler = std::function<std::string(const std::string& question)>;
  explicit ControlSocket(Handler handler) : handler_(std::move(handler)) {}
  ~ControlSocket() { stop(); }

  // Listens in each of the directories that take a socket; in one that does not answer within 2 s
  // later, if it ever does. Pre: no other process uses them. Errors: io - none of them takes one.
  Result<> start(const std::vector<std::string>& directories);
  // After the answer that is under way. The files are removed, but for those in directories that
  // do not answer within a second.
  void stop();

 private:
  struct Shared;
  void run();
  void answer(int connection);

  const Handler handler_;
  std::shared_ptr<Shared> shared_;  // with the threads that make and remove files
  std::thread thread_;
};

}  // namespace penstock
