#include "server/node/control_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "penstock/caught.h"
#include "penstock/log.h"

namespace penstock {
namespace {

constexpr timeval kSilence{5, 0};
constexpr int kBacklog = 8;
constexpr std::chrono::seconds kMakePatience{2};
constexpr std::chrono::seconds kRemovePatience{1};

Error system_error(const std::string& what) {
  return fail(Errc::io, what + ": " + std::strerror(errno));
}

// The address of a name in an open directory: a path may be longer than an address can be.
sockaddr_un address_in(int directory_fd) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory_fd,
                kControlSocketName);
  return address;
}

std::string path_in(const std::string& directory) { return directory + "/" + kControlSocketName; }

Result<int> listen_in(const std::string& directory) {
  const std::string path = path_in(directory);
  const int directory_fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_fd < 0) return system_error("cannot open \"" + directory + "\"");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::unlink(path.c_str());  // of a process that was killed
  const sockaddr_un address = address_in(directory_fd);
  // Nobody can connect before listen(): by then the file is its owner's alone.
  const bool listening =
      fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::chmod(path.c_str(), S_IRUSR | S_IWUSR) == 0 && ::listen(fd, kBacklog) == 0;
  const Error error = system_error("cannot listen on \"" + path + "\"");
  ::close(directory_fd);
  if (listening) return fd;
  if (fd >= 0) ::close(fd);
  return error;
}

}  // namespace

struct ControlSocket::Shared {
  struct Listener {
    std::string path;
    int fd = -1;
  };
  const int wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);  // readable: look again
  std::mutex mutex;                                              // guards what follows
  std::condition_variable changed;
  std::size_t under_way = 0;  // threads that make or remove a file
  bool ended = false;
  std::vector<Listener> listeners;
  Error last = fail(Errc::io, "no directory for the control socket");

  Shared() = default;
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    for (const Listener& listener : listeners) ::close(listener.fd);
    if (wake_fd >= 0) ::close(wake_fd);
  }

  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto woken = ::write(wake_fd, &one, sizeof one);
  }
  // On a thread of its own, which may never end.
  void make(const std::string& directory) {
    auto fd = listen_in(directory);
    const std::lock_guard lock(mutex);
    if (fd && ended) {
      ::close(*fd);  // too late: the next start removes the file
    } else if (fd) {
      listeners.push_back(Listener{path_in(directory), *fd});
    } else {
      last = std::move(fd).error();
      log_event(LogLevel::warn, "control_socket_failed", {{"reason", last.context}});
    }
    end_one();
    wake();
  }
  void remove(const std::string& path) {
    ::unlink(path.c_str());
    const std::lock_guard lock(mutex);
    end_one();
  }
  // Runs `job` for each of `names` on a thread of its own; waits for all of them, but not for ever.
  static void side_by_side(const std::shared_ptr<Shared>& shared,
                           const std::vector<std::string>& names,
                           void (Shared::*job)(const std::string&), std::chrono::seconds patience) {
    std::unique_lock lock(shared->mutex);
    shared->under_way = names.size();
    for (const auto& name : names) {
      std::thread([shared, job, name] { ((*shared).*job)(name); }).detach();
    }
    shared->changed.wait_for(lock, patience, [&] { return shared->under_way == 0; });
  }

 private:
  void end_one() {
    if (under_way > 0) --under_way;
    changed.notify_all();
  }
};

Result<> ControlSocket::start(const std::vector<std::string>& directories) {
  shared_ = std::make_shared<Shared>();
  if (shared_->wake_fd < 0) return system_error("eventfd");
  Shared::side_by_side(shared_, directories, &Shared::make, kMakePatience);
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->listeners.empty() && shared_->under_way == 0) return shared_->last;
    if (shared_->under_way > 0) {
      log_event(LogLevel::warn, "control_socket_late",
                {{"directories", std::to_string(shared_->under_way)},
                 {"reason", "their disks do not answer"}});
    }
  }
  thread_ = std::thread([this] { run(); });
  return {};
}

void ControlSocket::stop() {
  if (!thread_.joinable()) return;
  std::vector<std::string> paths;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ended = true;
    for (const auto& listener : shared_->listeners) paths.push_back(listener.path);
  }
  shared_->wake();
  thread_.join();
  try {
    Shared::side_by_side(shared_, paths, &Shared::remove, kRemovePatience);
  } catch (...) {
    report_exception("the end of the control socket");  // the files stay; a start replaces them
  }
}

void ControlSocket::run() {
  std::vector<pollfd> waits;
  while (true) {
    waits.assign(1, {shared_->wake_fd, POLLIN, 0});
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->ended) return;
      for (const auto& listener : shared_->listeners) waits.push_back({listener.fd, POLLIN, 0});
    }
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    std::uint64_t woken = 0;
    [[maybe_unused]] const auto got = ::read(shared_->wake_fd, &woken, sizeof woken);
    for (const pollfd& wait : waits) {
      if (wait.fd == shared_->wake_fd || (wait.revents & POLLIN) == 0) continue;
      const int connection = ::accept4(wait.fd, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &kSilence, sizeof kSilence);
      ::setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &kSilence, sizeof kSilence);
      try {
        answer(connection);
      } catch (...) {
        report_exception("the control socket");  // who asked sees the connection end
      }
      ::close(connection);
    }
  }
}

void ControlSocket::answer(int connection) {
  std::string question;
  while (question.empty() || question.back() != '\n') {
    char bytes[1024];
    const auto got = ::recv(connection, bytes, sizeof bytes, 0);
    if (got <= 0 || question.size() + static_cast<std::size_t>(got) > kControlQuestionBytesMax) {
      return;
    }
    question.append(bytes, static_cast<std::size_t>(got));
  }
  const std::string text = handler_(question) + "\n";
  std::size_t sent = 0;
  while (sent < text.size()) {
    const auto count = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return;
    sent += static_cast<std::size_t>(count);
  }
}

}  // namespace penstock
