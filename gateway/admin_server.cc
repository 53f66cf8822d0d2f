#include "gateway/admin_server.h"

#include "penstock/caught.h"

namespace penstock {
namespace {
constexpr std::size_t kConnectionsMax = 64;
constexpr Duration kPausedEvictable = std::chrono::seconds(5);  // probes do not pause
constexpr int kNotFound = 404;
constexpr int kMethodNotAllowed = 405;
constexpr int kInternalError = 500;
constexpr int kServiceUnavailable = 503;

HttpOptions admin_options() {
  HttpOptions options;
  options.connections_max = kConnectionsMax;
  options.paused_evictable = kPausedEvictable;
  return options;
}

S3Response text_response(int status, std::string text, std::string type = "text/plain") {
  S3Response response;
  response.status = status;
  response.set("Content-Type", std::move(type));
  response.content_length = text.size();
  response.body = std::move(text);
  return response;
}
}  // namespace

AdminService::AdminService(const Metrics& metrics, std::function<Readiness()> readiness)
    : metrics_(metrics), readiness_(std::move(readiness)) {}

S3Response AdminService::answer(const HttpHead& head) const {
  if (head.method != "GET" && head.method != "HEAD") {
    S3Response response = text_response(kMethodNotAllowed, "only GET and HEAD\n");
    response.set("Allow", "GET, HEAD");
    return response;
  }
  const std::string_view path = head.target.substr(0, head.target.find('?'));
  if (path == "/healthz") return text_response(200, "ok\n");
  if (path == "/readyz") {
    Readiness readiness = readiness_();
    const int status = readiness.ready ? 200 : kServiceUnavailable;
    return text_response(status, std::move(readiness.text));
  }
  if (path == "/metrics") {
    return text_response(200, metrics_.text(), "text/plain; version=0.0.4; charset=utf-8");
  }
  return text_response(kNotFound, "try /healthz, /readyz or /metrics\n");
}

Awaitable<void> AdminService::handle(HttpExchange& exchange) {
  S3Response response;
  try {
    response = answer(exchange.head());
  } catch (...) {
    const Error error = error_of_exception("the admin port");
    response = text_response(kInternalError, error.context + "\n");
  }
  // Whoever asks and goes away misses the answer: nothing to do about it.
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response), false);
}

AdminServer::AdminServer(boost::asio::io_context& context, const Metrics& metrics,
                         std::function<Readiness()> readiness, Clock& clock, Random& random)
    : service_(metrics, std::move(readiness)),
      server_({&context}, service_, clock, random, admin_options()) {}

Result<> AdminServer::listen(const std::string& address, std::uint16_t port) {
  return server_.listen(address, port);
}

}  // namespace penstock
