// Accepts connections and hands them round robin to the I/O threads; a connection never moves
// afterwards.
//
// One exclusive acceptor: SO_REUSEPORT would split few connections badly and would let a stale
// process share the port.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gateway/http/http_exchange.h"
#include "gateway/http/http_options.h"
#include "gateway/http/http_refusals.h"
#include "penstock/runtime.h"

namespace penstock {

// Thread-safety: connection_count() and refusals() from any thread; all else from the thread of the
// first context, or before it runs.
class HttpServer {
 public:
  // Each context is run by one thread. Ownership: borrows all; they outlive the coroutines on the
  // contexts.
  HttpServer(std::vector<boost::asio::io_context*> contexts, Service& service, Clock& clock,
             Random& random, HttpOptions options = {});
  // Closes the listening socket. Connections that stop() did not end stay until their contexts are
  // destroyed.
  ~HttpServer();

  // Listens and accepts from now on. `address`: a literal IPv4 or IPv6 address; `port` 0: any free
  // one. Errors: invalid - not an address; io - the port is taken, or may not be had.
  Result<> listen(const std::string& address, std::uint16_t port);
  std::uint16_t port() const;
  std::size_t connection_count() const;
  const HttpRefusals& refusals() const;

  // Accepts no more, closes idle connections, lets requests in work end; closes what is left after
  // `grace`. Errors: timeout - some requests did not even end then (they wait for something else
  // than their client).
  Task<> stop(Duration grace);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace penstock
