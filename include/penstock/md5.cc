// OpenSSL's one-block functions are deprecated in favour of its EVP contexts, which cost an
// allocation each and hide the state that the lanes need.
#include "penstock/md5.h"

#include <openssl/md5.h>

#include <cstring>

#include "penstock/assert.h"
#include "penstock/text_codec.h"

namespace penstock {

void md5_blocks(Md5Words& words, ConstBytes blocks) {
  PENSTOCK_ASSERT(blocks.size() % kMd5BlockBytes == 0);
  MD5_CTX context{};
  context.A = words[0];
  context.B = words[1];
  context.C = words[2];
  context.D = words[3];
  MD5_Update(&context, blocks.data(), blocks.size());
  words = {context.A, context.B, context.C, context.D};
}

ConstBytes Md5::fill_block(ConstBytes bytes) {
  const std::size_t open = total_bytes_ % kMd5BlockBytes;
  if (open == 0 || bytes.empty()) return bytes;
  const std::size_t taken = std::min(bytes.size(), kMd5BlockBytes - open);
  std::memcpy(open_block_.data() + open, bytes.data(), taken);
  total_bytes_ += taken;
  if (open + taken == kMd5BlockBytes) md5_blocks(words_, open_block_);
  return bytes.subspan(taken);
}

void Md5::update(ConstBytes bytes) {
  bytes = fill_block(bytes);
  const std::size_t whole = bytes.size() / kMd5BlockBytes * kMd5BlockBytes;
  if (whole > 0) md5_blocks(words_, bytes.first(whole));
  total_bytes_ += whole;
  bytes = bytes.subspan(whole);
  if (bytes.empty()) return;
  std::memcpy(open_block_.data(), bytes.data(), bytes.size());
  total_bytes_ += bytes.size();
}

Md5Digest Md5::digest() const {
  constexpr std::size_t kLengthAt = kMd5BlockBytes - sizeof(std::uint64_t);
  const std::size_t open = total_bytes_ % kMd5BlockBytes;
  std::array<std::byte, 2 * kMd5BlockBytes> padded{};
  std::memcpy(padded.data(), open_block_.data(), open);
  padded[open] = std::byte{0x80};
  const std::size_t size = open < kLengthAt ? kMd5BlockBytes : 2 * kMd5BlockBytes;
  const std::uint64_t total_bits = total_bytes_ * 8;  // modulo 2^64, as the RFC says
  std::memcpy(padded.data() + size - sizeof(total_bits), &total_bits, sizeof(total_bits));
  Md5Words words = words_;
  md5_blocks(words, ConstBytes(padded).first(size));
  Md5Digest digest;
  std::memcpy(digest.data(), words.data(), digest.size());
  return digest;
}

Md5Digest md5(ConstBytes bytes) {
  Md5 stream;
  stream.update(bytes);
  return stream.digest();
}

std::string md5_hex(const Md5Digest& md5) { return hex_encode(std::as_bytes(std::span(md5))); }

}  // namespace penstock
