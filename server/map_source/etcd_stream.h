// One HTTP/1.1 connection to an endpoint of etcd, by TLS or not: requests with JSON bodies, answers
// whole or as an endless stream. Bounded: an answer, and what a stream gives at a time, has
// kAnswerBytesMax.
// Errors of all: unavailable - nothing was sent; timeout - it was sent, and nobody knows.
// Thread-safety: one executor, one call at a time; close() at any time on it.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "penstock/runtime.h"
#include "server/map_source/etcd_tls.h"
#include "server/map_source/map_place.h"

namespace penstock {

inline constexpr std::size_t kAnswerBytesMax = 8 << 20;

struct EtcdRequest {
  std::string path;
  std::string body;
  std::string token;  // of a login; empty: none
};
struct EtcdAnswer {
  unsigned status = 0;
  std::string body;
  bool keeps = false;  // the connection may be used again
};

class EtcdStream {
 public:
  // `tls`: null: in the clear.
  explicit EtcdStream(Executor executor, std::shared_ptr<EtcdTls> tls = nullptr);
  ~EtcdStream();

  Task<> connect(EtcdEndpoint endpoint, Duration patience);
  // The answer as a whole.
  Task<EtcdAnswer> ask(EtcdRequest request, Duration patience);
  // Begins an endless answer: its status, and its body where that is not 200.
  Task<EtcdAnswer> begin(EtcdRequest request, Duration patience);
  // The next bytes of it; waits for ever. Errors: aborted - it has ended, or was closed.
  Task<std::string> more();
  void close();

 private:
  Task<> shake_hands(const std::string& host);
  Task<> send(EtcdRequest request, Duration patience);

  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace penstock
