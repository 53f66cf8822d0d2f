// Takes HTTP's chunked transfer coding off a body, byte for byte, without touching the payload.
//
// Stricter than RFC 9112 7.1: no extensions, no trailer fields, at most 16 hex digits: no S3 client
// sends any of these on this layer, and parsers differ on them. (aws-chunked is another layer,
// inside the payload.)
//
//   size line --(size > 0)--> payload --> line end --> size line
//       \-----(size = 0)--> last line end --> finished
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "penstock/result.h"

namespace penstock {

class ChunkedFraming {
 public:
  // Consumes framing up to the next payload byte, the end of the body or the end of `bytes`;
  // returns how many. Errors: invalid - not this coding; nothing more may be fed.
  Result<std::size_t> feed(std::string_view bytes);
  // Payload that comes next, with no framing in between. 0: feed() more framing, or finished.
  std::uint64_t payload_left() const { return state_ == State::payload ? size_ : 0; }
  // Pre: count <= payload_left().
  void take_payload(std::uint64_t count);
  bool finished() const { return state_ == State::finished; }

 private:
  enum class State : std::uint8_t {
    size,            // hex digits
    size_line_feed,  // after the CR of the size line
    payload,
    payload_return,  // CR, then LF behind the payload
    payload_line_feed,
    last_return,  // CR, then LF behind the last size line
    last_line_feed,
    finished,
  };
  bool step(char c);

  State state_ = State::size;
  std::uint64_t size_ = 0;
  unsigned digits_ = 0;
};

}  // namespace penstock
