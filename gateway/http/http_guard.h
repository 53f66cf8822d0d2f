// Refuses request heads whose meaning two parsers could disagree on, on the raw bytes, before any
// parser reads them.
//
// Request smuggling lives from leniency: two lengths, a length beside chunked, bare LF, folded
// lines, blanks before a colon. Here each of these is an error that ends the connection. Pure
// functions, no state beyond the scan position. Source: RFC 9110, RFC 9112.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gateway/s3/s3_error.h"

namespace penstock {

// Finds the end of a head that arrives in pieces.
class HeadScan {
 public:
  enum class State : std::uint8_t { incomplete, complete, malformed };
  // `bytes`: everything received since the head's first byte; only what is new is looked at. A head
  // that cannot become valid (a bare LF, a first byte that starts no method) is malformed at once:
  // nobody waits for its end.
  State look_at(std::string_view bytes);
  std::size_t head_bytes() const {
    return head_bytes_;
  }  // with the empty line; valid when complete

 private:
  std::size_t line_start_ = 0;
  std::size_t scanned_ = 0;
  std::size_t head_bytes_ = 0;
};

// How the body is delimited, as the only reading that is left.
struct HeadFraming {
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool expects_continue = false;
};

struct HeadCheck {
  std::optional<S3Code> refusal;  // the connection closes
  std::string_view reason;        // of the refusal, for the error's message
  HeadFraming framing;
};
// `head`: a complete head with its empty line.
HeadCheck check_head(std::string_view head);

}  // namespace penstock
