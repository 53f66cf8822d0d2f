// The second port, for operators: GET /healthz (the process is alive), /readyz (it can serve
// writes) and /metrics.
//
// Unauthenticated and without secrets: keep it off public networks.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "gateway/http/http_server.h"
#include "penstock/metrics.h"

namespace penstock {

struct Readiness {
  bool ready = false;
  std::string text;  // what is lost, one line per volume
};

class AdminService final : public Service {
 public:
  // `readiness` is asked once per /readyz, on an I/O thread: cheap and safe from any thread.
  // Ownership: borrows `metrics`.
  AdminService(const Metrics& metrics, std::function<Readiness()> readiness);
  Awaitable<void> handle(HttpExchange& exchange) override;

 private:
  S3Response answer(const HttpHead& head) const;

  const Metrics& metrics_;
  std::function<Readiness()> readiness_;
};

class AdminServer {
 public:
  // Ownership: borrows all.
  AdminServer(boost::asio::io_context& context, const Metrics& metrics,
              std::function<Readiness()> readiness, Clock& clock, Random& random);
  // As HttpServer's.
  Result<> listen(const std::string& address, std::uint16_t port);
  std::uint16_t port() const { return server_.port(); }
  Task<> stop(Duration grace) { return server_.stop(grace); }

 private:
  AdminService service_;
  HttpServer server_;
};

}  // namespace penstock
