// The low-level functions of OpenSSL are deprecated in favour of contexts that cost an allocation
// each and hide their state.
#include "penstock/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <cstring>

namespace penstock {
namespace {

constexpr std::size_t kBlockBytes = SHA256_CBLOCK;

// The state after one block of key bytes, each changed by `pad`.
std::array<std::uint32_t, 8> state_after(const std::array<std::uint8_t, kBlockBytes>& key,
                                         std::uint8_t pad) {
  std::array<std::uint8_t, kBlockBytes> block;
  for (std::size_t i = 0; i < kBlockBytes; ++i) block[i] = key[i] ^ pad;
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Transform(&context, block.data());
  std::array<std::uint32_t, 8> state;
  std::memcpy(state.data(), context.h, sizeof(context.h));
  OPENSSL_cleanse(block.data(), block.size());
  return state;
}

// SHA-256 of the block that led to `state` and of `message`.
Sha256Digest finish(const std::array<std::uint32_t, 8>& state, ConstBytes message) {
  SHA256_CTX context{};
  std::memcpy(context.h, state.data(), sizeof(context.h));
  context.Nl = kBlockBytes * 8;
  context.md_len = SHA256_DIGEST_LENGTH;
  SHA256_Update(&context, message.data(), message.size());
  Sha256Digest digest;
  SHA256_Final(digest.data(), &context);
  return digest;
}

}  // namespace

Sha256Digest sha256(ConstBytes bytes) {
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, bytes.data(), bytes.size());
  Sha256Digest digest;
  SHA256_Final(digest.data(), &context);
  return digest;
}

HmacSha256::HmacSha256(ConstBytes key) {
  std::array<std::uint8_t, kBlockBytes> padded{};
  if (key.size() > kBlockBytes) {
    const Sha256Digest digest = sha256(key);
    std::memcpy(padded.data(), digest.data(), digest.size());
  } else if (!key.empty()) {
    std::memcpy(padded.data(), key.data(), key.size());
  }
  inner_ = state_after(padded, 0x36);
  outer_ = state_after(padded, 0x5c);
  OPENSSL_cleanse(padded.data(), padded.size());
}

Sha256Digest HmacSha256::sign(ConstBytes message) const {
  const Sha256Digest inner = finish(inner_, message);
  return finish(outer_, std::as_bytes(std::span(inner)));
}

std::array<std::uint8_t, 20> hmac_sha1(ConstBytes key, ConstBytes message) {
  std::array<std::uint8_t, 20> digest{};
  HMAC(EVP_sha1(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data(),
       nullptr);
  return digest;
}

bool equal_in_constant_time(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace penstock
