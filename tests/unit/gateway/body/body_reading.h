// Requests with bodies that come in pieces, and what a reader makes of them, for tests.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/body/body_reader.h"
#include "penstock/checksum.h"
#include "tests/unit/gateway/auth/signing.h"

namespace penstock::testing {

// A body that comes in pieces of random or fixed sizes.
class FakeRawBody final : public RawBody {
 public:
  explicit FakeRawBody(std::string text) : text_(std::move(text)) {}
  std::optional<std::uint64_t> content_length() const override {
    return chunked_ ? std::nullopt
                    : std::optional<std::uint64_t>(announced_.value_or(text_.size()));
  }
  bool chunked() const override { return chunked_; }
  Task<std::size_t> read(MutBytes buffer) override {
    CHECK_FALSE(buffer.empty());
    if (error_ && at_ >= text_.size()) co_return fail(*error_, "fake");
    const std::size_t count = std::min({buffer.size(), text_.size() - at_, 1 + random_() % step_});
    std::copy_n(as_bytes(text_).begin() + static_cast<std::ptrdiff_t>(at_), count, buffer.begin());
    at_ += count;
    co_return count;
  }
  Task<> send_continue() override {
    ++continues_;
    co_return Result<>{};
  }
  FakeRawBody& step(std::size_t step) { return step_ = step, *this; }
  FakeRawBody& without_length() { return chunked_ = true, *this; }
  FakeRawBody& announce(std::uint64_t length) { return announced_ = length, *this; }
  FakeRawBody& end_with(Errc error) { return error_ = error, *this; }
  int continues() const { return continues_; }

 private:
  std::string text_;
  std::size_t at_ = 0;
  std::size_t step_ = 1 << 20;
  bool chunked_ = false;
  std::optional<std::uint64_t> announced_;
  std::optional<Errc> error_;
  int continues_ = 0;
  std::mt19937_64 random_{1};
};

struct Outcome {
  std::string code;  // "ok" or S3's
  std::string payload;
  Md5Digest md5{};
  BodyReader::Checksum checksum;
  S3Error error;
  std::size_t reads = 0;
};

inline Task<> read_all(BodyReader& body, std::size_t buffer_bytes, Outcome& outcome) {
  std::vector<std::byte> buffer(buffer_bytes);
  while (true) {
    auto count = co_await body.read(buffer);
    if (!count) co_return std::move(count).error();
    ++outcome.reads;
    if (*count == 0) co_return Result<>{};
    outcome.payload += as_text(ConstBytes(buffer).first(*count));
    // Whoever still read these bytes now would read others.
    std::fill(buffer.begin(), buffer.end(), std::byte{0xee});
  }
}

inline void run(boost::asio::io_context& io, Task<> task, std::optional<Result<>>& result) {
  boost::asio::co_spawn(io.get_executor(), std::move(task),
                        [&result](std::exception_ptr error, Result<> outcome) {
                          REQUIRE(error == nullptr);
                          result = std::move(outcome);
                        });
  io.run();
  io.restart();
}

// With a service of MD5, `io` must outlive its worker, which may still be at the end of waking it.
inline Outcome read_body_on(boost::asio::io_context& io, const S3Request& request, PayloadAuth auth,
                            FakeRawBody& raw, std::size_t buffer_bytes, ChecksumAlgorithm asked,
                            Md5Service* md5) {
  Outcome outcome;
  auto body = make_body_reader(request, std::move(auth), raw, md5);
  if (!body) {
    outcome.error = body.error();
    outcome.code = code_name(body.error().code);
    return outcome;
  }
  (*body)->compute(asked);
  std::optional<Result<>> result;
  run(io, read_all(**body, buffer_bytes, outcome), result);
  REQUIRE(result);
  if (!*result) {
    const auto failure = (*body)->failure();
    outcome.code = failure ? std::string(code_name(failure->code)) : "(none)";
    if (failure) outcome.error = *failure;
    return outcome;
  }
  run(io, (*body)->settle(), result);
  REQUIRE(*result);
  CHECK_FALSE((*body)->failure());
  CHECK(outcome.payload.size() == (*body)->length());
  outcome.code = "ok";
  outcome.md5 = (*body)->md5();
  outcome.checksum = (*body)->checksum();
  return outcome;
}

inline Outcome read_body(const S3Request& request, PayloadAuth auth, FakeRawBody& raw,
                         std::size_t buffer_bytes = 1 << 16,
                         ChecksumAlgorithm asked = ChecksumAlgorithm::none) {
  boost::asio::io_context io;
  return read_body_on(io, request, std::move(auth), raw, buffer_bytes, asked, nullptr);
}

inline S3Request put_request(Pairs headers = {}) {
  S3Request request = sent_request("PUT", "/b/k", {}, std::move(headers));
  request.bucket = "b";
  request.key = "k";
  return request;
}

inline PayloadAuth plain() { return {}; }

inline std::string random_text(std::size_t size, std::uint64_t seed = 5) {
  std::mt19937_64 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

inline std::string checksum_text(ChecksumAlgorithm algorithm, std::string_view text) {
  return base64_encode(checksum_of(algorithm, as_bytes(text)));
}

inline std::string header_name(ChecksumAlgorithm algorithm) {
  return "x-amz-checksum-" + std::string(to_string(algorithm));
}

}  // namespace penstock::testing
