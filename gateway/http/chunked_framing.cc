#include "gateway/http/chunked_framing.h"

#include <limits>

#include "penstock/assert.h"

namespace penstock {
namespace {
constexpr unsigned kDigitsMax = 16;
constexpr std::uint64_t kSizeMax = std::numeric_limits<std::int64_t>::max();

constexpr const char* kMalformed =
    "The chunked transfer coding of the body is malformed. It may have no extensions and no "
    "trailer fields.";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
}  // namespace

bool ChunkedFraming::step(char c) {
  const auto expect = [&](char wanted, State next) {
    state_ = next;
    return c == wanted;
  };
  switch (state_) {
    case State::size: {
      if (c == '\r' && digits_ > 0) {
        state_ = State::size_line_feed;
        return size_ <= kSizeMax;
      }
      const int digit = hex_value(c);
      if (digit < 0 || ++digits_ > kDigitsMax) return false;
      size_ = size_ * 16 + static_cast<std::uint64_t>(digit);
      return true;
    }
    case State::size_line_feed:
      return expect('\n', size_ > 0 ? State::payload : State::last_return);
    case State::payload_return:
      return expect('\r', State::payload_line_feed);
    case State::payload_line_feed:
      digits_ = 0;
      size_ = 0;
      return expect('\n', State::size);
    case State::last_return:
      return expect('\r', State::last_line_feed);
    case State::last_line_feed:
      return expect('\n', State::finished);
    case State::payload:
    case State::finished:
      break;
  }
  return false;
}

Result<std::size_t> ChunkedFraming::feed(std::string_view bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && state_ != State::payload && state_ != State::finished) {
    if (!step(bytes[used])) return fail(Errc::invalid, kMalformed);
    ++used;
  }
  return used;
}

void ChunkedFraming::take_payload(std::uint64_t count) {
  PENSTOCK_ASSERT(count <= payload_left());
  size_ -= count;
  if (size_ == 0) state_ = State::payload_return;
}

}  // namespace penstock
