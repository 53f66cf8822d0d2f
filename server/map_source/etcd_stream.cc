#include "server/map_source/etcd_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

namespace penstock {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using Stream = beast::basic_stream<asio::ip::tcp, Executor>;
using Resolver = asio::ip::basic_resolver<asio::ip::tcp, Executor>;

constexpr std::size_t kHeadBytesMax = 16 << 10;
constexpr int kKeepAliveSeconds = 5;
constexpr int kKeepAliveProbes = 3;
constexpr std::size_t kPieceBytes = 64 << 10;

using Request = http::request<http::string_body>;

Request request_of(EtcdRequest request) {
  Request message(http::verb::post, request.path, 11);
  message.set(http::field::host, "etcd");
  message.set(http::field::content_type, "application/json");
  if (!request.token.empty()) message.set(http::field::authorization, request.token);
  message.body() = std::move(request.body);
  message.prepare_payload();
  return message;
}

Error unknown(const error_code& error) {
  return fail(Errc::timeout, "etcd does not answer: " + error.message());
}

// getaddrinfo() cannot be cancelled: whoever waits for it goes on without it.
struct Resolving {
  explicit Resolving(Executor executor) : resolver(executor), timer(executor) {}
  Resolver resolver;
  asio::basic_waitable_timer<std::chrono::steady_clock,
                             asio::wait_traits<std::chrono::steady_clock>, Executor>
      timer;
  error_code error = asio::error::timed_out;
  asio::ip::tcp::endpoint target;
};

Task<asio::ip::tcp::endpoint> resolve(EtcdEndpoint endpoint, Executor executor, Duration patience) {
  const auto state = std::make_shared<Resolving>(executor);
  state->timer.expires_after(patience);
  state->resolver.async_resolve(
      endpoint.host, std::to_string(endpoint.port),
      [state](const error_code& error, const Resolver::results_type& found) {
        state->error = found.empty() && !error ? asio::error::host_not_found : error;
        if (!found.empty()) state->target = found.begin()->endpoint();
        state->timer.expires_at(std::chrono::steady_clock::time_point::min());
      });
  error_code ignored;
  auto token = asio::redirect_error(use_task, ignored);
  co_await state->timer.async_wait(token);
  if (!state->error) co_return state->target;
  // Those that have not begun wait behind one that hangs; they must not become more and more.
  if (state->error == asio::error::timed_out) state->resolver.cancel();
  co_return fail(Errc::unavailable,
                 "etcd at " + endpoint_text(endpoint) + ": " + state->error.message());
}

// A machine that lost its power says nothing more: an endless answer of it must end, too.
void set_keep_alive(Stream& stream) {
  error_code ignored;
  stream.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  stream.socket().set_option(asio::socket_base::keep_alive(true), ignored);
  const int socket = stream.socket().native_handle();
  const auto set = [socket](int option, int value) {
    (void)::setsockopt(socket, IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, kKeepAliveSeconds);
  set(TCP_KEEPINTVL, kKeepAliveSeconds);
  set(TCP_KEEPCNT, kKeepAliveProbes);
}

}  // namespace

struct EtcdStream::Parts {
  Parts(Executor executor, std::shared_ptr<EtcdTls> with) : tls(std::move(with)), stream(executor) {
    if (tls) secret.emplace(stream, tls->context);
  }
  const std::shared_ptr<EtcdTls> tls;
  Stream stream;  // its time bounds what goes through the next, too
  std::optional<asio::ssl::stream<Stream&>> secret;
  beast::flat_buffer buffer{kAnswerBytesMax};
  std::optional<http::response_parser<http::buffer_body>> endless;
};

EtcdStream::EtcdStream(Executor executor, std::shared_ptr<EtcdTls> tls)
    : parts_(std::make_unique<Parts>(std::move(executor), std::move(tls))) {}

EtcdStream::~EtcdStream() = default;

void EtcdStream::close() { parts_->stream.close(); }

Task<> EtcdStream::connect(EtcdEndpoint endpoint, Duration patience) {
  const auto no_way = [&endpoint](const error_code& why) {
    return fail(Errc::unavailable, "etcd at " + endpoint_text(endpoint) + ": " + why.message());
  };
  const auto until = std::chrono::steady_clock::now() + patience;
  error_code error;
  auto token = asio::redirect_error(use_task, error);
  asio::ip::tcp::endpoint target;
  const auto literal = asio::ip::make_address(endpoint.host, error);
  if (!error) {
    target = {literal, endpoint.port};
  } else {
    const auto executor = parts_->stream.get_executor();
    CO_TRY(found, co_await resolve(endpoint, executor, patience));
    target = found;
  }
  parts_->stream.expires_at(until);
  co_await parts_->stream.async_connect(target, token);
  if (error) co_return no_way(error);
  set_keep_alive(parts_->stream);
  if (!parts_->secret) co_return Result<>{};
  const auto met = co_await shake_hands(endpoint.host);
  if (!met)
    co_return fail(met.error().code,
                   "etcd at " + endpoint_text(endpoint) + ": TLS: " + met.error().context);
  co_return Result<>{};
}

// Within the time of the connection.
Task<> EtcdStream::shake_hands(const std::string& host) {
  auto& secret = *parts_->secret;
  error_code error;
  secret.set_verify_callback(asio::ssl::host_name_verification(host), error);
  error_code no_literal;
  (void)asio::ip::make_address(host, no_literal);
  if (no_literal) SSL_set_tlsext_host_name(secret.native_handle(), host.c_str());
  auto token = asio::redirect_error(use_task, error);
  (void)co_await secret.async_handshake(asio::ssl::stream_base::client, token);
  if (error) co_return fail(Errc::unavailable, error.message());
  co_return Result<>{};
}

// Begins the time of the whole call.
Task<> EtcdStream::send(EtcdRequest request, Duration patience) {
  const Request message = request_of(std::move(request));
  error_code error;
  auto token = asio::redirect_error(use_task, error);
  parts_->stream.expires_after(patience);
  if (parts_->secret) {
    (void)co_await http::async_write(*parts_->secret, message, token);
  } else {
    (void)co_await http::async_write(parts_->stream, message, token);
  }
  if (error) co_return unknown(error);
  co_return Result<>{};
}

Task<EtcdAnswer> EtcdStream::ask(EtcdRequest request, Duration patience) {
  CO_CHECK(co_await send(std::move(request), patience));
  http::response_parser<http::string_body> parser;
  parser.body_limit(kAnswerBytesMax);
  parser.header_limit(kHeadBytesMax);
  error_code error;
  auto token = asio::redirect_error(use_task, error);
  if (parts_->secret) {
    (void)co_await http::async_read(*parts_->secret, parts_->buffer, parser, token);
  } else {
    (void)co_await http::async_read(parts_->stream, parts_->buffer, parser, token);
  }
  if (error) co_return unknown(error);
  EtcdAnswer answer;
  answer.status = parser.get().result_int();
  answer.keeps = parser.get().keep_alive();
  answer.body = std::move(parser.get().body());
  co_return answer;
}

Task<EtcdAnswer> EtcdStream::begin(EtcdRequest request, Duration patience) {
  CO_CHECK(co_await send(std::move(request), patience));
  auto& parser = parts_->endless.emplace();
  parser.body_limit(boost::none);
  parser.header_limit(kHeadBytesMax);
  error_code error;
  auto token = asio::redirect_error(use_task, error);
  if (parts_->secret) {
    (void)co_await http::async_read_header(*parts_->secret, parts_->buffer, parser, token);
  } else {
    (void)co_await http::async_read_header(parts_->stream, parts_->buffer, parser, token);
  }
  if (error) co_return unknown(error);
  EtcdAnswer answer;
  answer.status = parser.get().result_int();
  if (answer.status != 200) {
    auto body = co_await more();
    if (body) answer.body = std::move(*body);
  }
  parts_->stream.expires_never();
  co_return answer;
}

Task<std::string> EtcdStream::more() {
  auto& parser = *parts_->endless;
  if (parser.is_done()) co_return fail(Errc::aborted, "etcd has ended the stream");
  std::string bytes(kPieceBytes, '\0');
  parser.get().body().data = bytes.data();
  parser.get().body().size = bytes.size();
  parser.get().body().more = true;
  error_code error;
  auto token = asio::redirect_error(use_task, error);
  if (parts_->secret) {
    (void)co_await http::async_read_some(*parts_->secret, parts_->buffer, parser, token);
  } else {
    (void)co_await http::async_read_some(parts_->stream, parts_->buffer, parser, token);
  }
  if (error == http::error::need_buffer) error = {};
  if (error) co_return fail(Errc::aborted, "the stream of etcd: " + error.message());
  bytes.resize(bytes.size() - parser.get().body().size);
  co_return bytes;
}

}  // namespace penstock
