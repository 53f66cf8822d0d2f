#include "gateway/http/http_stream.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <cerrno>

namespace penstock {
namespace {
using boost::system::error_code;

constexpr std::size_t kSendBytesMax = limits::kPieceBytes;  // per system call
// Sent without a stall to a peer that is taken for one that reads; a silent one gets half of it.
constexpr std::size_t kReadsBytes = 4 * limits::kUnsentBytesMax;
constexpr std::size_t kTurnBytes = 4 * limits::kMiB;
constexpr std::size_t kLingerBytesMax = 64 * limits::kMiB;
constexpr std::size_t kLingerStepBytes = 64 * limits::kKiB;
constexpr Duration kPeerLook = std::chrono::seconds(15);  // at whether a paused peer takes some

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

HttpStream::HttpStream(Socket socket, DeadlineWheel& wheel, const HttpOptions& options,
                       PauseListener* listener)
    : socket_(std::move(socket)),
      wheel_(wheel),
      options_(options),
      listener_(listener),
      receive_pace_(options.body_stall, options.body_bytes_per_second_min),
      taken_at_(wheel.now()) {
  error_code ignored;  // the calls below then wait in the kernel's default way
  socket_.non_blocking(true, ignored);
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  bound_unsent(true);
}

// Else the kernel holds some MiB for each peer that does not read. For one that does the bound only
// means more wake-ups, so it is lifted.
void HttpStream::bound_unsent(bool bounded) {
  const auto unsent = static_cast<int>(bounded ? 2 * limits::kUnsentBytesMax : 0);  // room is half
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  unbound_at_ = bounded ? sent_bytes_ + kReadsBytes : kNever;
}

void HttpStream::on_deadline() {
  expired_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

void HttpStream::start_wait(Duration most) {
  expired_ = wait_ended_ = false;
  wheel_.arm(*this, most);
}

Error HttpStream::wait_error(const error_code& error) const {
  if (stop_reason_ != nullptr) return fail(Errc::shutting_down, stop_reason_);
  if (wait_ended_) return fail(Errc::shutting_down, kPlaceNeeded);
  if (expired_) return fail(Errc::timeout, "connection: the client is too slow");
  return fail(Errc::aborted, "connection: " + error.message());
}

Task<std::size_t> HttpStream::receive_within(MutBytes buffer, Duration patience) {
  error_code error;
  if (stop_reason_ != nullptr) co_return wait_error(error);
  start_wait(patience);
  auto token = boost::asio::redirect_error(use_task, error);
  const auto target = boost::asio::buffer(buffer.data(), buffer.size());
  const std::size_t received = co_await socket_.async_read_some(target, token);
  DeadlineWheel::disarm(*this);
  if (error == boost::asio::error::eof) co_return std::size_t{0};
  if (!error) co_return received;
  // A busy thread may see the deadline before the bytes that came in time.
  if ((expired_ || wait_ended_) && stop_reason_ == nullptr) {
    if (auto now = receive_now(buffer, {})) co_return std::move(*now);
  }
  co_return wait_error(error);
}

Task<> HttpStream::wait_readable(Duration patience) {
  error_code error;
  if (stop_reason_ != nullptr) co_return wait_error(error);
  start_wait(patience);
  auto token = boost::asio::redirect_error(use_task, error);
  co_await socket_.async_wait(Socket::wait_read, token);
  DeadlineWheel::disarm(*this);
  const bool came = wait_ended_ && stop_reason_ == nullptr && has_bytes();
  if (error && !came) co_return wait_error(error);
  co_return Result<>{};
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
  while (!now) {
    const BootTime start = wheel_.unhurried();
    const Duration patience = receive_pace_.patience_left();
    Result<std::size_t> waited = co_await receive_within(first, patience);
    receive_pace_.waited(wheel_.unhurried() - start);
    // The deadline goes by the clock, in which this thread's own lateness counts.
    const bool too_early =
        !waited && waited.error().code == Errc::timeout && receive_pace_.has_patience();
    if (!too_early) now = std::move(waited);
  }
  if (!*now) co_return std::move(*now);
  receive_pace_.moved(now->value());
  if (turn_is_over(now->value())) co_await let_others_run();
  co_return std::move(*now);
}

void HttpStream::restart_pace() { receive_pace_.restart(); }

Task<bool> HttpStream::wait_writable(Duration most) {
  error_code error;
  if (stop_reason_ != nullptr) co_return wait_error(error);
  start_wait(std::max(most, Duration(1)));
  auto token = boost::asio::redirect_error(use_task, error);
  co_await socket_.async_wait(Socket::wait_write, token);
  DeadlineWheel::disarm(*this);
  if (!error) co_return true;
  if (stop_reason_ != nullptr || !expired_) co_return wait_error(error);
  co_return false;
}

std::uint64_t HttpStream::taken_now() {
  int queued = 0;
  if (::ioctl(socket_.native_handle(), SIOCOUTQ, &queued) != 0 || queued < 0) return taken_bytes_;
  return sent_bytes_ - std::min<std::uint64_t>(sent_bytes_, queued);
}

void HttpStream::keep_until_taken(std::shared_ptr<const void> keepalive) {
  release_taken();
  if (keepalive != nullptr) kept_.push_back({sent_bytes_, std::move(keepalive)});
}

void HttpStream::release_taken() {
  if (kept_.empty()) return;
  const std::uint64_t taken = taken_now();
  std::erase_if(kept_, [taken](const Kept& kept) { return kept.end <= taken; });
}

// Room here comes in large steps; what the peer's host acknowledges tells of each byte.
bool HttpStream::look_at_peer() {
  const std::uint64_t taken = taken_now();
  if (taken == taken_bytes_) return false;
  taken_bytes_ = taken;
  taken_at_ = wheel_.now();
  return true;
}

bool HttpStream::peer_goes_on() { return look_at_peer() && taken_bytes_ < sent_bytes_; }

Task<bool> HttpStream::wait_for_room(Duration most, Duration pause_max) {
  bound_unsent(true);
  const bool moved = look_at_peer();
  if (listener_ != nullptr && (moved || !paused_)) listener_->paused();
  paused_ = true;
  const Duration look = std::min({most, kPeerLook, pause_max / 8});
  CO_TRY(has_room, co_await wait_writable(look));
  if (has_room) {
    paused_ = false;
    if (listener_ != nullptr) listener_->resumed();
    co_return true;
  }
  if (!look_at_peer() && wheel_.now() - taken_at_ >= pause_max) {
    co_return fail(Errc::timeout, "connection: the client does not read");
  }
  co_return false;
}

void HttpStream::sent(std::size_t bytes) {
  sent_bytes_ += bytes;
  if (sent_bytes_ >= unbound_at_) bound_unsent(false);
  taken_at_ = wheel_.now();  // there was room, so something was taken
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

Result<HttpStream::Push> HttpStream::push(ConstBytes& first, ConstBytes& second, bool more) {
  const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
  while (!first.empty() || !second.empty()) {
    Gathered gathered(first, second, kSendBytesMax);
    const ssize_t count = ::sendmsg(socket_.native_handle(), &gathered.message, flags);
    if (count >= 0) {
      sent(static_cast<std::size_t>(count));
      drop_front(first, second, static_cast<std::size_t>(count));
      if (turn_is_over(static_cast<std::size_t>(count))) return Push::turn_over;
    } else if (would_block(errno)) {
      return Push::blocked;
    } else if (errno != EINTR) {
      return peer_gone(errno);
    }
  }
  return Push::done;
}

Result<HttpStream::Push> HttpStream::push_pages(PinnedPages& pages) {
  while (pages.left() > 0) {
    const ssize_t count = pages.send(socket_.native_handle(), kSendBytesMax);
    if (count > 0) {
      sent(static_cast<std::size_t>(count));
      if (turn_is_over(static_cast<std::size_t>(count))) return Push::turn_over;
    } else if (count == 0) {
      return fail(Errc::io, "connection: pages are gone");
    } else if (would_block(errno)) {
      return Push::blocked;
    } else if (errno != EINTR) {
      return peer_gone(errno);
    }
  }
  return Push::done;
}

Task<> HttpStream::send(ConstBytes first, ConstBytes second) {
  while (true) {
    CO_TRY(state, push(first, second, false));
    if (state == Push::done) co_return Result<>{};
    if (state == Push::turn_over) {
      co_await let_others_run();
      continue;
    }
    CO_TRY(moment, co_await wait_writable(options_.reader_stalled));
    bool has_room = moment;
    while (!has_room) {
      CO_TRY(later, co_await wait_for_room(options_.document_pause, options_.document_pause));
      has_room = later;
    }
  }
}

Task<std::size_t> HttpStream::send_while_taken(ConstBytes first, ConstBytes second, bool more) {
  const std::size_t all = first.size() + second.size();
  while (true) {
    CO_TRY(state, push(first, second, more));
    if (state == Push::done) co_return all;
    if (state == Push::turn_over) {
      co_await let_others_run();
      continue;
    }
    CO_TRY(has_room, co_await wait_writable(options_.reader_stalled));
    if (!has_room) co_return all - first.size() - second.size();
  }
}

Task<std::size_t> HttpStream::send_pages_while_taken(PinnedPages& pages) {
  const std::size_t all = pages.left();
  while (true) {
    CO_TRY(state, push_pages(pages));
    if (state == Push::done) co_return all;
    if (state == Push::turn_over) {
      co_await let_others_run();
      continue;
    }
    CO_TRY(has_room, co_await wait_writable(options_.reader_stalled));
    if (!has_room) co_return all - pages.left();
  }
}

Awaitable<void> HttpStream::linger() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  const BootTime end = wheel_.now() + options_.linger;
  std::size_t total = 0;
  while (total < kLingerBytesMax && wheel_.now() < end) {
    // Nobody reads what comes, so all connections of a thread share the place.
    static thread_local std::array<std::byte, kLingerStepBytes> forgotten;
    const auto received = receive_now(forgotten, {});
    if (!received) {
      const Duration patience = end - wheel_.now();
      const auto waited = co_await wait_readable(patience);
      if (!waited) co_return;
      continue;
    }
    if (!*received || received->value() == 0) co_return;
    total += received->value();
    if (turn_is_over(received->value())) co_await let_others_run();
  }
}

bool HttpStream::has_bytes() {
  int waiting = 0;
  return ::ioctl(socket_.native_handle(), FIONREAD, &waiting) == 0 && waiting > 0;
}

void HttpStream::end_wait() {
  wait_ended_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

void HttpStream::stop(const char* reason) {
  stop_reason_ = reason;
  error_code ignored;
  socket_.cancel(ignored);
}

void HttpStream::close() {
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace penstock
