#include "gateway/http/http_connection.h"

#include "penstock/caught.h"
#include "penstock/log.h"
#include "penstock/request_name.h"

namespace penstock {
namespace {
constexpr std::size_t kResponseHeadBytes = 512;  // of nearly all answers

boost::asio::ip::address address_of(const HttpStream::Socket& socket) {
  boost::system::error_code gone;
  return socket.remote_endpoint(gone).address();
}
}  // namespace

HttpConnection::HttpConnection(std::shared_ptr<HttpLoop> loop, HttpStream::Socket socket,
                               std::uint32_t address)
    : loop_(std::move(loop)),
      remote_(address_of(socket)),
      stream_(std::move(socket), loop_->wheel(), loop_->shared().options, this),
      input_(loop_->shared().options.memory),
      body_(stream_, input_) {
  loop_->join(*this, address);
}

void HttpConnection::stop(bool at_once) {
  if (at_once || waiting_) stream_.stop(kServerStops);
}

bool HttpConnection::give_way(HttpLoop::Rest kind) {
  if (kind == HttpLoop::Rest::paused || lingering_) {
    stream_.stop(kPlaceNeeded);
    return true;
  }
  if (stream_.has_bytes()) return false;  // of a head: only this thread has yet to look at them
  stream_.end_wait();
  return true;
}

void HttpConnection::start_exchange() {
  write_request_id(loop_->shared().random.next(), request_id_);
  response_head_.reserve(kResponseHeadBytes);
  body_bytes_sent_ = 0;
  has_asked_ = true;
  answered_ = send_failed_ = keep_open_ = head_valid_ = false;
}

Awaitable<void> HttpConnection::run() {
  Next next = Next::serve;
  while (next == Next::serve) {
    next = co_await read_head();
    if (next == Next::serve) next = co_await serve();
  }
  if (next == Next::linger) co_await linger();
  stream_.close();
}

// Thousands may be refused at once: beyond the bound they may miss their answer.
Awaitable<void> HttpConnection::linger() {
  HttpShared& shared = loop_->shared();
  if (++shared.lingering <= shared.options.lingers_max) {
    input_.consume(input_.unread().size());
    release_buffers();
    lingering_ = true;
    loop_->rest(*this, HttpLoop::Rest::idle);
    co_await stream_.linger();
  }
  --shared.lingering;
}

void HttpConnection::release_buffers() {
  input_.release();
  head_ = HttpHead();
  response_head_ = std::string();
}

Awaitable<HttpConnection::Next> HttpConnection::read_head() {
  HeadScan scan;
  input_.next_head();
  loop_->rest(*this, HttpLoop::Rest::idle);
  if (input_.unread().empty()) {
    if (loop_->shared().stopping) co_return Next::close;
    waiting_ = true;
    const auto received = co_await wait_for_request();
    waiting_ = false;
    if (!received || received.value() == 0) co_return Next::close;  // nothing was asked
    input_.received(received.value());
  }
  start_exchange();
  co_return co_await read_rest_of_head(scan);
}

// The first bytes of a request, in the input's free space. Whoever keeps us waiting holds no
// buffers; whoever still takes the rest of the last answer is not idle.
Task<std::size_t> HttpConnection::wait_for_request() {
  const HttpOptions& options = loop_->shared().options;
  const Duration patience = has_asked_ ? options.idle_timeout : options.first_byte_timeout;
  const Duration moment = std::min(patience, options.idle_holds);
  auto received = co_await stream_.receive_within(input_.free_space(), moment);
  if (received || received.error().code != Errc::timeout) co_return received;
  release_buffers();
  stream_.release_taken();
  BootTime end = loop_->wheel().now() + patience - moment;
  Duration look = moment;  // at what the client's host takes later
  while (true) {
    const Duration left = end - loop_->wheel().now();
    if (left <= Duration(0) && !stream_.peer_goes_on()) {
      // A busy thread may see the end before the bytes that came in time.
      if (auto now = stream_.receive_now(input_.free_space(), {})) co_return std::move(*now);
      co_return received;
    }
    if (left <= Duration(0)) end = loop_->wheel().now() + patience;
    const Duration wait = stream_.keeps() ? std::min(left, look) : left;
    const auto readable = co_await stream_.wait_readable(std::max(wait, Duration(1)));
    if (!readable && readable.error().code != Errc::timeout) co_return readable.error();
    if (!readable) {
      stream_.release_taken();
      look *= 2;
      continue;
    }
    if (auto now = stream_.receive_now(input_.free_space(), {})) co_return std::move(*now);
  }
}

Awaitable<HttpConnection::Next> HttpConnection::read_rest_of_head(HeadScan& scan) {
  const HttpOptions& options = loop_->shared().options;
  const BootTime end = loop_->wheel().now() + options.header_timeout;
  while (true) {
    const HeadScan::State state = scan.look_at(input_.unread());
    if (state == HeadScan::State::complete) break;
    if (state == HeadScan::State::malformed) {
      auto error = s3_error(S3Code::InvalidRequest, "The request is not valid HTTP/1.1.");
      co_return co_await refuse(HttpRefusal::malformed_head, std::move(error));
    }
    const InputBuffer::Grown grown = input_.grow(options.head_bytes_max);
    if (grown == InputBuffer::Grown::at_max) break;
    if (grown == InputBuffer::Grown::no_memory) {
      auto error = s3_error(S3Code::SlowDown);
      co_return co_await refuse(HttpRefusal::no_memory, std::move(error));
    }
    const Duration patience = std::max(end - loop_->wheel().now(), Duration(1));
    const auto received = co_await stream_.receive_within(input_.free_space(), patience);
    if (received && received.value() > 0) {
      input_.received(received.value());
      continue;
    }
    if (received || received.error().code != Errc::timeout) co_return Next::close;
    auto error = s3_error(S3Code::RequestTimeout);
    co_return co_await refuse(HttpRefusal::head_timeout, std::move(error));
  }
  if (scan.head_bytes() == 0 || scan.head_bytes() > options.head_bytes_max) {
    auto error = s3_error(S3Code::RequestHeaderSectionTooLarge);
    co_return co_await refuse(HttpRefusal::head_too_large, std::move(error));
  }
  co_return co_await accept_head(scan.head_bytes());
}

Awaitable<HttpConnection::Next> HttpConnection::accept_head(std::size_t head_bytes) {
  const std::string_view bytes = input_.pin_head(head_bytes);
  const HeadCheck check = check_head(bytes);
  if (check.refusal || !parse_head(bytes, check.framing, head_)) {
    const S3Code code = check.refusal.value_or(S3Code::InvalidRequest);
    const bool too_large = code == S3Code::RequestHeaderSectionTooLarge;
    const auto reason = too_large ? HttpRefusal::head_too_large : HttpRefusal::malformed_head;
    auto error = s3_error(code, std::string(check.reason));
    co_return co_await refuse(reason, std::move(error));
  }
  head_valid_ = true;
  loop_->wake(*this);
  body_.start(check.framing);
  // An empty body needs no permission, but botocore asks for it all the same, and takes a final
  // answer without it for the answer to the next request of the connection, too.
  if (body_.finished()) {
    const auto sent = co_await body_.send_continue();
    if (!sent) co_return Next::close;
  }
  co_return Next::serve;
}

Awaitable<HttpConnection::Next> HttpConnection::serve() {
  Service& service = loop_->shared().service;
  try {
    co_await service.handle(*this);
  } catch (...) {
    report_exception("a connection");
    co_return Next::close;
  }
  if (!answered_ || send_failed_) co_return Next::close;
  if (!keep_open_) {
    const bool all_read = body_.finished() && input_.unread().empty();
    co_return all_read ? Next::close : Next::linger;
  }
  const auto finished = co_await body_.finish();
  co_return finished ? Next::serve : Next::close;
}

Task<> HttpConnection::send(S3Response response, bool close) {
  keep_open_ =
      !close && head_valid_ && head_.keep_alive && !loop_->shared().stopping && body_.can_finish();
  ResponseTerms terms;
  terms.date = loop_->date();
  terms.request_id = request_id_;
  terms.host_id = loop_->host_id();
  terms.head_only = head_valid_ && head_.method == "HEAD";
  if (!keep_open_) {
    terms.persistence = ResponseTerms::Persistence::close;
  } else if (head_.http_1_0) {
    terms.persistence = ResponseTerms::Persistence::keep_alive;
  }
  ResponseSender sender(stream_, response_head_);
  Result<> sent;
  try {
    sent = co_await sender.send(terms, std::move(response));
  } catch (...) {
    sent = error_of_exception("an answer");
  }
  answered_ = sender.started();
  body_bytes_sent_ = sender.body_bytes_sent();
  send_failed_ = answered_ && !sent;
  co_return sent;
}

// What follows on this connection cannot be told apart from a request, so nothing of it is ever
// looked at.
Awaitable<HttpConnection::Next> HttpConnection::refuse(HttpRefusal reason, S3Error error) {
  loop_->shared().refusals.count(reason);
  loop_->wake(*this);
  if (log_enabled(LogLevel::debug)) {
    log_event(LogLevel::debug, "request_refused",
              {{"request_id", request_id_},
               {"code", std::string(code_name(error.code))},
               {"reason", error.message}});
  }
  S3Response response;
  response.set_xml(error_xml(error, {}, request_id_, host_id()));
  response.status = http_status(error.code);
  const auto sent = co_await send(std::move(response), true);
  loop_->shared().service.refused(*this, error);
  co_return sent ? Next::linger : Next::close;
}

}  // namespace penstock
