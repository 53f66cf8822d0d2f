#include "tests/sim/sim_body.h"

#include <algorithm>
#include <cstring>

#include "penstock/checksum.h"
#include "penstock/text_codec.h"

namespace penstock::sim {

std::string body_of(std::uint32_t number, std::uint64_t offset, std::uint64_t length) {
  constexpr std::uint64_t kWord = 8;
  const std::uint64_t first = offset / kWord;
  const std::uint64_t words = (offset + length + kWord - 1) / kWord - first;
  std::string body(words * kWord, '\0');
  for (std::uint64_t i = 0; i < words; ++i) {
    const std::uint64_t word = mix_hash((std::uint64_t{number} << 40) + first + i + 1);
    std::memcpy(body.data() + i * kWord, &word, kWord);
  }
  body.erase(0, offset % kWord);
  body.resize(length);
  return body;
}

SimBody::SimBody(std::string bytes, SimClock& clock, SimRandom& random)
    : bytes_(std::move(bytes)), clock_(clock), random_(random) {}

BodyReader::Checksum SimBody::checksum() const {
  return {"crc32c", checksum_of(ChecksumAlgorithm::crc32c, as_bytes(bytes_))};
}

Task<> SimBody::accept() { co_return Result<>{}; }

Task<std::size_t> SimBody::read(MutBytes buffer) {
  if (random_.chance(0.2)) {
    const auto pause = Duration(random_.between(1, 20'000));
    co_await clock_.sleep_until(clock_.boot() + pause);
  }
  const std::size_t count = std::min(buffer.size(), bytes_.size() - read_);
  std::memcpy(buffer.data(), bytes_.data() + read_, count);
  read_ += count;
  co_return count;
}

Task<std::string> drain_body(S3Response response, BodyPause pause) {
  if (auto* text = std::get_if<std::string>(&response.body)) co_return std::move(*text);
  std::string all;
  auto* source = std::get_if<std::unique_ptr<BodySource>>(&response.body);
  if (source == nullptr) co_return all;
  while (true) {
    if (pause && !all.empty()) co_await pause();
    CO_TRY(piece, co_await (*source)->next());
    if (piece.length == 0) break;
    all += as_text(piece.bytes());
  }
  co_return all;
}

std::string quoted(const std::string& etag) { return "\"" + etag + "\""; }

std::string hex_md5(std::string_view bytes) {
  const auto digest = penstock::md5(as_bytes(bytes));
  return hex_encode(std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

}  // namespace penstock::sim
