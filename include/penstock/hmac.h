// SHA-256 and HMAC (RFC 2104) for short messages that are signed on every request.
//
// OpenSSL's one-shot HMAC looks up its algorithm and allocates at each call, which costs more than
// the rest of a small GET. An HmacSha256 keeps the two states that its key leads to. Thread-safety:
// all from any thread.
#pragma once
#include <array>
#include <cstdint>

#include "penstock/types.h"

namespace penstock {

using Sha256Digest = std::array<std::uint8_t, 32>;
Sha256Digest sha256(ConstBytes bytes);

class HmacSha256 {
 public:
  HmacSha256() = default;  // to be assigned
  explicit HmacSha256(ConstBytes key);
  Sha256Digest sign(ConstBytes message) const;

 private:
  using State = std::array<std::uint32_t, 8>;
  State inner_{};
  State outer_{};
};

std::array<std::uint8_t, 20> hmac_sha1(ConstBytes key, ConstBytes message);

// Compares in a time that depends on the lengths only.
bool equal_in_constant_time(ConstBytes a, ConstBytes b);

}  // namespace penstock
