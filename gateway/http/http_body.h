// The bytes of a request's body as they stand on the wire after HTTP's own framing is taken off.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

// Framed by Content-Length, by `Transfer-Encoding: chunked`, or absent (then an empty body). What
// is inside, e.g. aws-chunked, is the matter of the reader on top. Errors of every call: timeout -
// the client stalls or is slower than the minimum rate (S3: RequestTimeout); aborted - it went
// away; invalid - it broke the framing (trailer fields of HTTP are not served); shutting_down.
// After an error the connection is closed when the answer has been sent. Thread-safety: the
// connection's thread only.
class RawBody {
 public:
  virtual ~RawBody() = default;
  // Bytes of the whole body if the client announced them: always but for chunked bodies. No body:
  // 0.
  virtual std::optional<std::uint64_t> content_length() const = 0;
  virtual bool chunked() const = 0;
  // Reads 1 … buffer.size() bytes straight into `buffer`, which stays valid until then; 0 at the
  // end of the body, again and again. The first read sends "100 Continue" if the client waits for
  // it. Pre: `buffer` is not empty.
  virtual Task<std::size_t> read(MutBytes buffer) = 0;
  // Sends "100 Continue" now, if the client waits for it and nothing was sent yet.
  virtual Task<> send_continue() = 0;
};

}  // namespace penstock
