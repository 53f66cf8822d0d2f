// What a service behind the HTTP server sees of one request, and what the server wants from a
// service. No sockets.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/http/http_body.h"
#include "gateway/http/http_head.h"
#include "gateway/s3/request.h"

namespace penstock {

// One request and its answer. Lives until Service::handle() has returned.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpHead& head() const = 0;
  virtual RawBody& body() = 0;
  virtual std::uint64_t body_bytes_read() const = 0;
  virtual std::string_view request_id() const = 0;  // unique, of letters and digits
  virtual std::string_view host_id() const = 0;
  // Who asks: the peer's address without its port; empty if it is not known.
  virtual std::string remote() const { return {}; }
  // Pinned pages of files may be in the response: they go out without a copy.
  virtual bool file_pieces() const = 0;

  // Sends the answer; a HEAD request gets the headers only. `close`: the connection ends
  // afterwards. Exactly one answer per request: send() again only if it failed and answered() is
  // still false, i.e. the body's source failed before its first byte. Errors: those of the
  // connection and of the body's source.
  virtual Task<> send(S3Response response, bool close) = 0;
  // A byte of the answer may be out. An error from then on closes the connection.
  virtual bool answered() const = 0;
  virtual std::uint64_t body_bytes_sent() const = 0;
};

// Thread-safety: handle() runs on every I/O thread.
class Service {
 public:
  virtual ~Service() = default;
  // Answers one request. A request left unanswered closes the connection.
  virtual Awaitable<void> handle(HttpExchange& exchange) = 0;
  // Reports, afterwards, what the server refused by itself because it is no request. There is no
  // head.
  virtual void refused(const HttpExchange&, const S3Error&) {}
};

}  // namespace penstock
