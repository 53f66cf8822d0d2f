#include "gateway/body/body_reader.h"

#include <cstring>

#include "gateway/body/body_checks.h"
#include "gateway/body/chunk_decoder.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

// Framing comes through a small buffer, together with the payload that happens to be read along
// with it.
constexpr std::size_t kStagingBytes = 8 * 1024;
// Bodies below this are hashed faster than handed over.
constexpr std::uint64_t kServiceBytesMin = 64 * 1024;

std::string_view as_text(const auto& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

S3Error closing(S3Code code, std::string message = {}) {
  S3Error error = s3_error(code, std::move(message));
  error.close = true;
  return error;
}

class S3BodyReader final : public BodyReader {
 public:
  S3BodyReader(BodyPromises promises, PayloadAuth payload, RawBody& raw, Md5Service* md5);

  std::uint64_t length() const override { return promises_.payload_bytes; }
  Task<> accept() override { return raw_.send_continue(); }
  Task<std::size_t> read(MutBytes buffer) override;
  Task<std::size_t> receive(Buffer buffer) override;
  std::optional<S3Error> failure() const override { return failure_; }
  Task<> settle() override { return md5_.settle(); }
  std::array<std::uint8_t, 16> md5() const override { return md5_.digest(); }
  void compute(ChecksumAlgorithm algorithm) override;
  Checksum checksum() const override;

 private:
  Task<std::size_t> read_plain(MutBytes buffer);
  Task<std::size_t> read_chunks(MutBytes buffer);
  Task<> fill_staging();
  Error cut_off(const Error& error);
  Task<std::size_t> read_raw(MutBytes buffer);
  // 0: the verified end.
  Task<std::size_t> read_payload(MutBytes buffer);
  void check(ConstBytes payload);
  Task<> check_end();
  S3Result<> verify();
  S3Result<> verify_sha256() const;
  S3Result<> verify_md5() const;
  S3Result<> verify_checksum();
  Error fail_with(S3Error error);

  BodyPromises promises_;
  RawBody& raw_;
  const PayloadMode mode_;
  const Sha256Digest promised_sha256_;
  std::uint64_t plain_left_;
  std::optional<ChunkDecoder> chunks_;
  std::vector<std::byte> staging_;
  ConstBytes staged_;  // of staging_, not used yet
  const bool wants_md5_;
  Md5Stream md5_;
  Checksummer payload_sha256_;  // idle where checksum_ computes the same
  Checksummer checksum_;
  std::optional<S3Error> failure_;
  bool verified_ = false;
};

S3BodyReader::S3BodyReader(BodyPromises promises, PayloadAuth payload, RawBody& raw,
                           Md5Service* md5)
    : promises_(std::move(promises)),
      raw_(raw),
      mode_(payload.mode),
      promised_sha256_(payload.sha256),
      plain_left_(promises_.payload_bytes),
      wants_md5_(promises_.etag || promises_.content_md5.has_value()),
      md5_(wants_md5_ && promises_.payload_bytes >= kServiceBytesMin ? md5 : nullptr),
      checksum_(promises_.checksum) {
  const bool is_known = checksum_.algorithm() == ChecksumAlgorithm::sha256;
  if (mode_ == PayloadMode::hashed && !is_known) {
    payload_sha256_ = Checksummer(ChecksumAlgorithm::sha256);
  }
  if (!is_chunked(mode_)) return;
  const auto trailer = promises_.in_trailer ? promises_.checksum : ChecksumAlgorithm::none;
  chunks_.emplace(std::move(payload), promises_.payload_bytes, trailer);
}

void S3BodyReader::compute(ChecksumAlgorithm algorithm) {
  if (promises_.checksum == ChecksumAlgorithm::none) checksum_ = Checksummer(algorithm);
}

BodyReader::Checksum S3BodyReader::checksum() const {
  return {std::string(to_string(checksum_.algorithm())), checksum_.raw()};
}

Error S3BodyReader::fail_with(S3Error error) {
  failure_ = std::move(error);
  return fail(Errc::invalid, "the request's body: " + std::string(code_name(failure_->code)));
}

Task<std::size_t> S3BodyReader::read(MutBytes buffer) {
  CO_TRY(count, co_await read_payload(buffer));
  if (wants_md5_) CO_CHECK(co_await md5_.add(buffer.first(count)));
  co_return count;
}

Task<std::size_t> S3BodyReader::receive(Buffer buffer) {
  CO_TRY(count, co_await read_payload(buffer.mutable_bytes()));
  if (wants_md5_ && count > 0) CO_CHECK(co_await md5_.add_later(buffer.slice(0, count)));
  co_return count;
}

Task<std::size_t> S3BodyReader::read_payload(MutBytes buffer) {
  if (failure_) co_return fail_with(*failure_);
  if (verified_) co_return std::size_t{0};
  std::size_t count = 0;
  if (chunks_) {
    CO_TRY(read_count, co_await read_chunks(buffer));
    count = read_count;
  } else {
    CO_TRY(read_count, co_await read_plain(buffer));
    count = read_count;
  }
  if (count > 0) co_return count;
  CO_CHECK(co_await check_end());
  if (promises_.content_md5) CO_CHECK(co_await md5_.settle());
  if (auto verdict = verify(); !verdict) co_return fail_with(verdict.error());
  verified_ = true;
  co_return std::size_t{0};
}

Task<std::size_t> S3BodyReader::read_plain(MutBytes buffer) {
  const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), plain_left_);
  std::size_t filled = 0;
  while (filled < wanted) {
    const MutBytes place = buffer.subspan(filled, wanted - filled);
    CO_TRY(count, co_await read_raw(place));
    check(place.first(count));
    filled += count;
    plain_left_ -= count;
  }
  co_return filled;
}

Task<std::size_t> S3BodyReader::read_chunks(MutBytes buffer) {
  std::size_t filled = 0;
  while (filled < buffer.size() && !chunks_->finished()) {
    if (chunks_->data_bytes_left() == 0) {
      if (staged_.empty()) {
        CO_CHECK(co_await fill_staging());
      }
      auto taken = chunks_->take_framing(staged_);
      if (!taken) co_return fail_with(taken.error());
      staged_ = staged_.subspan(*taken);
      continue;
    }
    const std::size_t wanted =
        std::min<std::uint64_t>(buffer.size() - filled, chunks_->data_bytes_left());
    const MutBytes place = buffer.subspan(filled, wanted);
    std::size_t count = 0;
    if (staged_.empty() && wanted >= kStagingBytes) {
      CO_TRY(read_count, co_await read_raw(place));
      count = read_count;
    } else {
      if (staged_.empty()) {
        CO_CHECK(co_await fill_staging());
      }
      count = std::min(wanted, staged_.size());
      std::memcpy(place.data(), staged_.data(), count);
      staged_ = staged_.subspan(count);
    }
    chunks_->take_data(place.first(count));
    check(place.first(count));
    filled += count;
  }
  co_return filled;
}

Task<> S3BodyReader::fill_staging() {
  staging_.resize(kStagingBytes);
  CO_TRY(count, co_await read_raw(staging_));
  staged_ = ConstBytes(staging_).first(count);
  co_return Result<>{};
}

// What S3 calls the failure of a read below; others are told as they are.
Error S3BodyReader::cut_off(const Error& error) {
  if (error.code == Errc::timeout) return fail_with(closing(S3Code::RequestTimeout));
  if (error.code == Errc::invalid) return fail_with(closing(S3Code::InvalidRequest, error.context));
  if (error.code != Errc::aborted) return error;
  return fail_with(closing(S3Code::IncompleteBody, "The request body terminated unexpectedly"));
}

// At least one byte: where one is wanted, an end is a failure.
Task<std::size_t> S3BodyReader::read_raw(MutBytes buffer) {
  auto count = co_await raw_.read(buffer);
  if (!count) co_return cut_off(count.error());
  if (*count == 0) co_return cut_off(fail(Errc::aborted, "body: no more of it"));
  co_return count;
}

// As soon as it is there, while it is in the cache.
void S3BodyReader::check(ConstBytes payload) {
  payload_sha256_.update(payload);
  checksum_.update(payload);
}

// Nothing may follow the last chunk: it would be read as the next request.
Task<> S3BodyReader::check_end() {
  if (!chunks_) co_return Result<>{};
  std::byte extra{};
  std::size_t extra_count = staged_.size();
  if (extra_count == 0) {
    const auto count = co_await raw_.read(MutBytes(&extra, 1));
    if (!count) co_return cut_off(count.error());
    extra_count = *count;
  }
  if (extra_count == 0) co_return Result<>{};
  co_return fail_with(closing(S3Code::InvalidRequest,
                              "The aws-chunked body is malformed: bytes follow the last chunk"));
}

S3Result<> S3BodyReader::verify() {
  CHECK_OK(verify_sha256());
  CHECK_OK(verify_md5());
  return verify_checksum();
}

S3Result<> S3BodyReader::verify_sha256() const {
  if (mode_ != PayloadMode::hashed) return {};
  const bool has_own = payload_sha256_.algorithm() != ChecksumAlgorithm::none;
  const std::string computed = has_own ? payload_sha256_.raw() : checksum_.raw();
  if (computed == as_text(promised_sha256_)) return {};
  S3Error error = s3_error(S3Code::XAmzContentSHA256Mismatch);
  error.details.emplace_back("ClientComputedContentSHA256", hex_encode(as_text(promised_sha256_)));
  error.details.emplace_back("S3ComputedContentSHA256", hex_encode(computed));
  return error;
}

S3Result<> S3BodyReader::verify_md5() const {
  if (!promises_.content_md5) return {};
  const Md5Digest computed = md5_.digest();
  if (computed == *promises_.content_md5) return {};
  S3Error error =
      s3_error(S3Code::BadDigest, "The Content-MD5 you specified did not match what we received.");
  error.details.emplace_back("ExpectedDigest", hex_encode(as_text(*promises_.content_md5)));
  error.details.emplace_back("CalculatedDigest", base64_encode(as_text(computed)));
  return error;
}

S3Result<> S3BodyReader::verify_checksum() {
  if (promises_.checksum == ChecksumAlgorithm::none) return {};
  if (promises_.in_trailer) {
    TRY(raw, parse_checksum(promises_.checksum, chunks_->trailer_value()));
    promises_.checksum_raw = std::move(raw);
  }
  if (checksum_.raw() == promises_.checksum_raw) return {};
  return s3_error(S3Code::BadDigest, "The " + std::string(s3_name(promises_.checksum)) +
                                         " you specified did not match the calculated checksum.");
}

}  // namespace

S3Result<std::unique_ptr<BodyReader>> make_body_reader(const S3Request& request,
                                                       PayloadAuth payload, RawBody& raw,
                                                       Md5Service* md5) {
  TRY(promises, body_promises(request, payload.mode, raw));
  return std::unique_ptr<BodyReader>(
      std::make_unique<S3BodyReader>(std::move(promises), std::move(payload), raw, md5));
}

}  // namespace penstock
