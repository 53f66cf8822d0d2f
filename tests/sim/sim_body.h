// Bodies whose every byte says which write it is from, so that a mixture of two writes or a wrong
// offset shows.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/s3/request.h"
#include "penstock/md5.h"
#include "tests/sim/sim_time.h"

namespace penstock::sim {

// The body of write `number`: `length` bytes. Parts of a multipart write are ranges of it.
std::string body_of(std::uint32_t number, std::uint64_t offset, std::uint64_t length);

// A request body in memory, as the HTTP side would hand it to an operation; slow clients come in
// small pieces.
class SimBody final : public BodyReader {
 public:
  SimBody(std::string bytes, SimClock& clock, SimRandom& random);
  std::uint64_t length() const override { return bytes_.size(); }
  Task<> accept() override;
  Task<std::size_t> read(MutBytes buffer) override;
  std::optional<S3Error> failure() const override { return std::nullopt; }
  std::array<std::uint8_t, 16> md5() const override { return penstock::md5(as_bytes(bytes_)); }
  // The client has named a CRC32C, and it was right.
  Checksum checksum() const override;

 private:
  std::string bytes_;
  std::size_t read_ = 0;
  SimClock& clock_;
  SimRandom& random_;
};

// Reads a whole response body. Before each piece behind the first `pause`, if there is one, is
// awaited. Errors: as BodySource::next.
using BodyPause = std::function<Awaitable<void>()>;
Task<std::string> drain_body(S3Response response, BodyPause pause = nullptr);

std::string hex_md5(std::string_view bytes);
std::string quoted(const std::string& etag);

}  // namespace penstock::sim
