// Arbitrary bytes as an aws-chunked body of each mode. However they are cut, the outcome is the
// same; nothing is finished unless it adds up, and signed bodies that nobody signed never are.
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/body/chunk_decoder.h"

namespace {
using namespace penstock;

void require(bool claim) {
  if (!claim) std::abort();
}

struct Outcome {
  std::string payload;
  std::string trailer;
  std::size_t used = 0;
  bool finished = false;
  bool refused = false;
  bool operator==(const Outcome&) const = default;
};

PayloadAuth auth_of(PayloadMode mode) {
  PayloadAuth auth;
  auth.mode = mode;
  if (has_signed_chunks(mode)) {
    auth.signer.emplace(HmacSha256(as_bytes("key")), "20130524T000000Z", "scope", "seed");
  }
  return auth;
}

Outcome decode(PayloadMode mode, std::string_view text, std::uint64_t decoded_bytes,
               std::size_t step) {
  const auto trailer = has_trailer(mode) ? ChecksumAlgorithm::crc32 : ChecksumAlgorithm::none;
  ChunkDecoder decoder(auth_of(mode), decoded_bytes, trailer);
  Outcome outcome;
  while (!decoder.finished() && outcome.used < text.size()) {
    const std::string_view piece = text.substr(outcome.used, step);
    if (const std::uint64_t left = decoder.data_bytes_left()) {
      const std::string_view data = piece.substr(0, left);
      decoder.take_data(as_bytes(data));
      outcome.payload += data;
      outcome.used += data.size();
      continue;
    }
    const auto taken = decoder.take_framing(as_bytes(piece));
    if (!taken) {
      require(taken.error().close);
      outcome.refused = true;
      outcome.used = 0;  // how far it came depends on the cut
      return outcome;
    }
    require(*taken > 0 && *taken <= piece.size());
    outcome.used += *taken;
  }
  outcome.finished = decoder.finished();
  if (outcome.finished) outcome.trailer = decoder.trailer_value();
  return outcome;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr PayloadMode kModes[] = {PayloadMode::chunked_unsigned_trailer,
                                    PayloadMode::chunked_signed,
                                    PayloadMode::chunked_signed_trailer};
  if (size < 3) return 0;
  const PayloadMode mode = kModes[data[0] % 3];
  const std::uint64_t decoded_bytes = data[1];
  const std::size_t step = 1 + data[2];
  const std::string_view text(reinterpret_cast<const char*>(data + 3), size - 3);
  const Outcome outcome = decode(mode, text, decoded_bytes, step);
  require(outcome == decode(mode, text, decoded_bytes, text.size()));
  if (outcome.finished) require(outcome.payload.size() == decoded_bytes);
  require(!outcome.finished || !has_signed_chunks(mode));
  return 0;
}
