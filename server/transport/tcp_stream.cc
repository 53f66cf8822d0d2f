#include "server/transport/tcp_stream.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <cerrno>
#include <charconv>
#include <utility>

#include "penstock/alarm.h"
#include "penstock/congestion_control.h"
#include "penstock/limits.h"

namespace penstock {
namespace {
namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kPartsPerCall = 64;  // of one sendmsg(2)

Error broken(int error) {
  return fail(Errc::aborted,
              "connection: " + error_code(error, boost::system::system_category()).message());
}

bool is_of_socket(int error) {
  constexpr std::array kErrors{EPIPE,        ECONNRESET,  ENOTCONN, ETIMEDOUT, ECONNABORTED,
                               EHOSTUNREACH, ENETUNREACH, ENETDOWN, EHOSTDOWN, ENOBUFS};
  return std::find(kErrors.begin(), kErrors.end(), error) != kErrors.end();
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

// What is left to send of some parts.
class Unsent {
 public:
  explicit Unsent(std::span<const ConstBytes> parts) : parts_(parts) { skip_empty(); }
  bool empty() const { return parts_.empty(); }
  std::size_t gather(std::array<iovec, kPartsPerCall>& vectors) const {
    const std::size_t count = std::min(parts_.size(), vectors.size());
    for (std::size_t i = 0; i < count; ++i) {
      const ConstBytes part = i == 0 ? parts_[0].subspan(sent_) : parts_[i];
      vectors[i] = iovec{const_cast<std::byte*>(part.data()), part.size()};
    }
    return count;
  }
  void sent(std::size_t bytes) {
    while (bytes > 0) {
      const std::size_t of_first = std::min(bytes, parts_[0].size() - sent_);
      sent_ += of_first;
      bytes -= of_first;
      skip_empty();
    }
  }

 private:
  void skip_empty() {
    while (!parts_.empty() && sent_ == parts_[0].size()) {
      parts_ = parts_.subspan(1);
      sent_ = 0;
    }
  }
  std::span<const ConstBytes> parts_;
  std::size_t sent_ = 0;  // of the first
};

}  // namespace

void set_peer_options(int fd) {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  constexpr auto kSeconds = static_cast<int>(limits::kPeerKeepAlive.count());
  set(IPPROTO_TCP, TCP_KEEPIDLE, kSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kSeconds / 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * kSeconds);
  choose_congestion_control(fd);
}

TcpStream::TcpStream(Socket socket) : socket_(std::move(socket)) {
  error_code ignored;  // the calls below then wait in the kernel's default way
  socket_.non_blocking(true, ignored);
  socket_.native_non_blocking(true, ignored);
}

Task<> TcpStream::wait(Socket::wait_type what) {
  error_code error;
  auto token = asio::redirect_error(use_task, error);
  co_await socket_.async_wait(what, token);
  if (error) co_return fail(Errc::aborted, "connection: " + error.message());
  co_return Result<>{};
}

Task<std::size_t> TcpStream::receive(MutBytes buffer) {
  while (socket_.is_open()) {
    const ssize_t received =
        ::recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (received >= 0) co_return static_cast<std::size_t>(received);
    if (errno == EINTR) continue;
    if (!would_block(errno)) co_return broken(errno);
    CO_CHECK(co_await wait(Socket::wait_read));
  }
  co_return fail(Errc::aborted, "connection: closed");
}

Task<> TcpStream::send(std::span<const ConstBytes> parts) {
  Unsent unsent(parts);
  while (!unsent.empty() && socket_.is_open()) {
    std::array<iovec, kPartsPerCall> vectors;
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = unsent.gather(vectors);
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      sent_ += static_cast<std::uint64_t>(sent);
      unsent.sent(static_cast<std::size_t>(sent));
    } else if (would_block(errno)) {
      CO_CHECK(co_await wait(Socket::wait_write));
    } else if (errno != EINTR) {
      co_return broken(errno);
    }
  }
  if (!unsent.empty()) co_return fail(Errc::aborted, "connection: closed");
  co_return Result<>{};
}

// An error of sendfile(2) may be of either end. Those that are not a socket's are taken for the
// file's: should one be the connection's after all, what is sent next fails as well.
Task<FileSent> TcpStream::send_file(FileRange range) {
  FileSent done;
  while (range.length > 0 && socket_.is_open()) {
    auto position = static_cast<off_t>(range.offset);
    const ssize_t sent = ::sendfile(socket_.native_handle(), range.fd, &position, range.length);
    if (sent > 0) {
      sent_ += static_cast<std::uint64_t>(sent);
      range.offset += static_cast<std::uint64_t>(sent);
      range.length -= static_cast<std::size_t>(sent);
      done.bytes += static_cast<std::size_t>(sent);
    } else if (sent < 0 && would_block(errno)) {
      CO_CHECK(co_await wait(Socket::wait_write));
    } else if (sent < 0 && is_of_socket(errno)) {
      co_return broken(errno);
    } else if (sent == 0 || errno != EINTR) {
      done.failure = file_failure(sent == 0 ? 0 : errno);
      co_return done;
    }
  }
  if (range.length > 0) co_return fail(Errc::aborted, "connection: closed");
  co_return done;
}

// What the peer's host has acknowledged.
SendProgress TcpStream::progress() const {
  int waiting = 0;
  if (socket_.is_open() && ::ioctl(socket_.native_handle(), SIOCOUTQ, &waiting) == 0) {
    const auto left = static_cast<std::uint64_t>(std::max(waiting, 0));
    taken_ = std::max(taken_, sent_ - std::min(sent_, left));
  }
  return {sent_, taken_};
}

void TcpStream::close() {
  error_code ignored;  // it is gone either way
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
}

Result<PeerAddress> parse_peer_address(std::string_view text) {
  const auto malformed = [text] {
    return fail(Errc::invalid, "\"" + std::string(text) + "\" is no HOST:PORT");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return malformed();
  PeerAddress address;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return malformed();
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (host.empty() || error != std::errc() || end != port.data() + port.size()) return malformed();
  address.host = host == "localhost" ? "127.0.0.1" : std::string(host);
  return address;
}

bool is_loopback(std::string_view host) {
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  return !error && address.is_loopback();
}

bool meets_itself(const TcpStream::Socket& socket) {
  error_code here_error, there_error;
  const auto here = socket.local_endpoint(here_error);
  const auto there = socket.remote_endpoint(there_error);
  return !here_error && !there_error && here == there;
}

Task<std::unique_ptr<ByteStream>> dial_tcp(std::string address, Clock& clock) {
  CO_TRY(parsed, parse_peer_address(address));
  error_code error;
  const auto host = asio::ip::make_address(parsed.host, error);
  if (error) co_return fail(Errc::invalid, "server " + address + ": no literal address");
  const auto executor = co_await asio::this_coro::executor;
  TcpStream::Socket socket(executor);
  const asio::ip::tcp::endpoint target(host, parsed.port);
  socket.open(target.protocol(), error);
  if (error) co_return fail(Errc::overloaded, "connection: " + error.message());
  set_peer_options(socket.native_handle());
  const BootTime until = clock.boot() + Duration(limits::kConnectTime);
  const Alarm alarm(executor, clock, until, [&socket] {
    error_code ignored;
    socket.close(ignored);
  });
  auto token = asio::redirect_error(use_task, error);
  co_await socket.async_connect(target, token);
  if (!error && !socket.is_open()) error = asio::error::timed_out;
  if (error) co_return fail(Errc::unavailable, "connection: " + error.message());
  if (meets_itself(socket)) {
    co_return fail(Errc::unavailable, "connection: nobody listens there");
  }
  co_return std::unique_ptr<ByteStream>(std::make_unique<TcpStream>(std::move(socket)));
}

}  // namespace penstock
