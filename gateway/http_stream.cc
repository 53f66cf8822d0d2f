#include "gateway/http_stream.h"

#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <boost/asio/redirect_error.hpp>
#include <cerrno>

namespace penstock {
namespace {
using boost::system::error_code;

constexpr std::size_t kSendBytesMax = limits::kPieceBytes;  // per system call
constexpr std::size_t kTurnBytes = 4 * limits::kMiB;
constexpr std::size_t kLingerBytesMax = 64 * limits::kMiB;
constexpr std::size_t kLingerStepBytes = 64 * limits::kKiB;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

Error peer_gone(int error) {
  return fail(Errc::aborted,
              "connection: " + error_code(error, boost::system::system_category()).message());
}

// Up to `bytes_max` of two spans, as system calls want them.
struct Gathered {
  std::array<iovec, 2> parts;
  msghdr message{};
  Gathered(ConstBytes first, ConstBytes second, std::size_t bytes_max) {
    std::size_t count = 0;
    for (ConstBytes span : {first, second}) {
      const std::size_t take = std::min(span.size(), bytes_max);
      if (take == 0) continue;
      parts[count++] = iovec{const_cast<std::byte*>(span.data()), take};
      bytes_max -= take;
    }
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
  }
};

void drop_front(ConstBytes& first, ConstBytes& second, std::size_t count) {
  const std::size_t of_first = std::min(count, first.size());
  first = first.subspan(of_first);
  second = second.subspan(count - of_first);
}
}  // namespace

HttpStream::HttpStream(Socket socket, DeadlineWheel& wheel, const HttpOptions& options)
    : socket_(std::move(socket)),
      wheel_(wheel),
      receive_pace_(options.body_stall, options.body_bytes_per_second_min),
      send_pace_(options.send_stall, options.send_bytes_per_second_min),
      linger_(options.linger) {
  error_code ignored;  // the calls below then wait in the kernel's default way
  socket_.non_blocking(true, ignored);
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
}

void HttpStream::on_deadline() {
  expired_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

Error HttpStream::wait_error(const error_code& error) const {
  if (stopped_) return fail(Errc::shutting_down, "connection: the server stops");
  if (expired_) return fail(Errc::timeout, "connection: the client is too slow");
  return fail(Errc::aborted, "connection: " + error.message());
}

Task<std::size_t> HttpStream::receive_within(MutBytes buffer, Duration patience) {
  if (stopped_) co_return fail(Errc::shutting_down, "connection: the server stops");
  expired_ = false;
  wheel_.arm(*this, patience);
  error_code error;
  auto token = boost::asio::redirect_error(use_task, error);
  const auto target = boost::asio::buffer(buffer.data(), buffer.size());
  const std::size_t received = co_await socket_.async_read_some(target, token);
  DeadlineWheel::disarm(*this);
  if (error == boost::asio::error::eof) co_return std::size_t{0};
  if (error) co_return wait_error(error);
  co_return received;
}

std::optional<Result<std::size_t>> HttpStream::receive_now(MutBytes first, MutBytes second) {
  while (true) {
    Gathered gathered(first, second, first.size() + second.size());
    const ssize_t received = ::recvmsg(socket_.native_handle(), &gathered.message, MSG_DONTWAIT);
    if (received >= 0) return Result<std::size_t>(static_cast<std::size_t>(received));
    if (would_block(errno)) return std::nullopt;
    if (errno != EINTR) return Result<std::size_t>(peer_gone(errno));
  }
}

Task<std::size_t> HttpStream::receive(MutBytes first, MutBytes second) {
  auto now = receive_now(first, second);
  if (!now) {
    const BootTime start = wheel_.now();
    const Duration patience = receive_pace_.patience_left();
    Result<std::size_t> waited = co_await receive_within(first, patience);
    receive_pace_.waited(wheel_.now() - start);
    now = std::move(waited);
  }
  if (!*now) co_return std::move(*now);
  receive_pace_.moved(now->value());
  if (turn_is_over(now->value())) co_await let_others_run();
  co_return std::move(*now);
}

void HttpStream::restart_pace() {
  receive_pace_.restart();
  send_pace_.restart();
}

Task<> HttpStream::wait_writable() {
  if (stopped_) co_return fail(Errc::shutting_down, "connection: the server stops");
  expired_ = false;
  const BootTime start = wheel_.now();
  wheel_.arm(*this, send_pace_.patience_left());
  error_code error;
  auto token = boost::asio::redirect_error(use_task, error);
  co_await socket_.async_wait(Socket::wait_write, token);
  DeadlineWheel::disarm(*this);
  send_pace_.waited(wheel_.now() - start);
  if (error) co_return wait_error(error);
  co_return Result<>{};
}

bool HttpStream::turn_is_over(std::size_t bytes) {
  turn_bytes_ += bytes;
  if (turn_bytes_ < kTurnBytes) return false;
  turn_bytes_ = 0;
  return true;
}

Awaitable<void> HttpStream::let_others_run() {
  return boost::asio::post(socket_.get_executor(), use_task);
}

Task<> HttpStream::send(ConstBytes first, ConstBytes second, bool more) {
  const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
  while (!first.empty() || !second.empty()) {
    Gathered gathered(first, second, kSendBytesMax);
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &gathered.message, flags);
    if (sent >= 0) {
      send_pace_.moved(static_cast<std::uint64_t>(sent));
      drop_front(first, second, static_cast<std::size_t>(sent));
      if (turn_is_over(static_cast<std::size_t>(sent))) co_await let_others_run();
    } else if (would_block(errno)) {
      CO_CHECK(co_await wait_writable());
    } else if (errno != EINTR) {
      co_return peer_gone(errno);
    }
  }
  co_return Result<>{};
}

Task<> HttpStream::send_file(int fd, std::uint64_t offset, std::size_t length) {
  auto position = static_cast<off_t>(offset);
  while (length > 0) {
    const std::size_t step = std::min(length, kSendBytesMax);
    const ssize_t sent = ::sendfile(socket_.native_handle(), fd, &position, step);
    if (sent > 0) {
      send_pace_.moved(static_cast<std::uint64_t>(sent));
      length -= static_cast<std::size_t>(sent);
      if (turn_is_over(static_cast<std::size_t>(sent))) co_await let_others_run();
    } else if (sent == 0) {
      co_return fail(Errc::io, "connection: a file piece ends too early");
    } else if (would_block(errno)) {
      CO_CHECK(co_await wait_writable());
    } else if (errno != EINTR) {
      co_return peer_gone(errno);
    }
  }
  co_return Result<>{};
}

Awaitable<void> HttpStream::linger() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  const BootTime end = wheel_.now() + linger_;
  std::vector<std::byte> discarded(kLingerStepBytes);
  std::size_t total = 0;
  while (total < kLingerBytesMax && wheel_.now() < end) {
    auto received = receive_now(discarded, {});
    if (!received) {
      const Duration patience = end - wheel_.now();
      received = co_await receive_within(discarded, patience);
    }
    if (!*received || received->value() == 0) co_return;
    total += received->value();
    if (turn_is_over(received->value())) co_await let_others_run();
  }
}

void HttpStream::stop() {
  stopped_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

void HttpStream::close() {
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace penstock
