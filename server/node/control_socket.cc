#include "server/node/control_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "penstock/caught.h"
#include "penstock/log.h"

namespace penstock {
namespace {

constexpr timeval kSilence{5, 0};
constexpr int kBacklog = 8;

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

}  // namespace

Result<int> ControlSocket::listen_in(const std::string& directory) {
  const std::string path = directory + "/" + kControlSocketName;
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

Result<> ControlSocket::start(const std::vector<std::string>& directories) {
  Error last = fail(Errc::io, "no directory for the control socket");
  for (const auto& directory : directories) {
    auto fd = listen_in(directory);
    if (fd) {
      listeners_.push_back(Listener{directory + "/" + kControlSocketName, *fd});
    } else {
      last = std::move(fd).error();
      log_event(LogLevel::warn, "control_socket_failed", {{"reason", last.context}});
    }
  }
  if (listeners_.empty()) return last;
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC);
  if (wake_fd_ < 0) return system_error("eventfd");
  thread_ = std::thread([this] { run(); });
  return {};
}

void ControlSocket::stop() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto woken = ::write(wake_fd_, &one, sizeof one);
    thread_.join();
  }
  for (const Listener& listener : listeners_) {
    ::close(listener.fd);
    ::unlink(listener.path.c_str());
  }
  listeners_.clear();
  if (wake_fd_ >= 0) ::close(wake_fd_);
  wake_fd_ = -1;
}

void ControlSocket::run() {
  std::vector<pollfd> waits;
  for (const Listener& listener : listeners_) waits.push_back({listener.fd, POLLIN, 0});
  waits.push_back({wake_fd_, POLLIN, 0});
  while (true) {
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits.back().revents != 0) return;
    for (const pollfd& wait : waits) {
      if ((wait.revents & POLLIN) == 0) continue;
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
    const auto count =
        ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return;
    sent += static_cast<std::size_t>(count);
  }
}

}  // namespace penstock
