#include "gateway/body/body_checks.h"

#include <charconv>

#include "gateway/s3/http_text.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

constexpr std::string_view kChecksumPrefix = "x-amz-checksum-";
constexpr std::string_view kDecodedLength = "x-amz-decoded-content-length";

std::optional<std::uint64_t> parse_decoded_length(std::string_view text) {
  std::uint64_t length = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, length);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return length;
}

bool takes_no_body(const S3Request& request) {
  if (request.method == "PUT") return request.header("x-amz-copy-source") != nullptr;
  if (request.method == "POST") return request.has_query("uploads");
  return true;
}

S3Result<std::uint64_t> payload_length(const S3Request& request, PayloadMode mode,
                                       const RawBody& raw) {
  if (is_chunked(mode)) {
    const std::string* text = request.header(kDecodedLength);
    if (text == nullptr) return s3_error(S3Code::MissingContentLength);
    if (const auto length = parse_decoded_length(*text)) return *length;
    S3Error error = s3_error(S3Code::InvalidArgument,
                             "The value of x-amz-decoded-content-length is not a length");
    error.details.emplace_back("ArgumentName", std::string(kDecodedLength));
    error.details.emplace_back("ArgumentValue", *text);
    return error;
  }
  if (const auto length = raw.content_length()) return *length;
  // A body without a length that no operation reads: usually an empty one in chunks.
  if (takes_no_body(request)) return std::uint64_t{0};
  return s3_error(S3Code::MissingContentLength);
}

S3Result<std::optional<Md5Digest>> content_md5(const S3Request& request) {
  const std::string* text = request.header("content-md5");
  if (text == nullptr) return std::optional<Md5Digest>();
  Md5Digest digest;
  const auto raw = base64_decode(*text);
  if (!raw || raw->size() != digest.size()) {
    S3Error error = s3_error(S3Code::InvalidDigest);
    error.details.emplace_back("Content-MD5", *text);
    return error;
  }
  std::copy(raw->begin(), raw->end(), digest.begin());
  return std::optional<Md5Digest>(digest);
}

S3Error several_checksums() {
  return s3_error(S3Code::InvalidRequest,
                  "Expecting a single x-amz-checksum- header. Multiple checksum Types are not "
                  "allowed.");
}

// These say how, not what.
bool is_checksum_parameter(std::string_view name) {
  return name == "algorithm" || name == "type" || name == "mode";
}

S3Result<> take_checksum_headers(BodyPromises& promises, const S3Request& request) {
  for (const auto& [name, value] : request.headers) {
    if (!name.starts_with(kChecksumPrefix)) continue;
    const std::string_view algorithm_name = std::string_view(name).substr(kChecksumPrefix.size());
    if (is_checksum_parameter(algorithm_name)) continue;
    const auto algorithm = parse_checksum_algorithm(algorithm_name);
    if (!algorithm) {
      return s3_error(S3Code::InvalidRequest, "The checksum of header " + name + " is not served");
    }
    if (promises.checksum != ChecksumAlgorithm::none) return several_checksums();
    TRY(raw, parse_checksum(*algorithm, value));
    promises.checksum = *algorithm;
    promises.checksum_raw = std::move(raw);
  }
  return {};
}

S3Result<> take_trailer(BodyPromises& promises, const S3Request& request, PayloadMode mode) {
  for (const auto& [header, names] : request.headers) {
    if (header != "x-amz-trailer") continue;
    std::string_view rest = names;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string name = http_text::lower(http_text::trim(rest.substr(0, comma), " "));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      const auto algorithm =
          name.starts_with(kChecksumPrefix)
              ? parse_checksum_algorithm(std::string_view(name).substr(kChecksumPrefix.size()))
              : std::nullopt;
      if (!algorithm || !has_trailer(mode)) {
        return s3_error(S3Code::InvalidRequest,
                        "The value specified in the x-amz-trailer header is not supported");
      }
      if (promises.checksum != ChecksumAlgorithm::none) return several_checksums();
      promises.checksum = *algorithm;
      promises.in_trailer = true;
    }
  }
  return {};
}

// What SDKs send along names the algorithm again.
S3Result<> check_sdk_algorithm(const BodyPromises& promises, const S3Request& request) {
  const std::string* name = request.header("x-amz-sdk-checksum-algorithm");
  if (name == nullptr) return {};
  if (promises.checksum == ChecksumAlgorithm::none) {
    return s3_error(S3Code::InvalidRequest,
                    "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* "
                    "or x-amz-trailer headers were found.");
  }
  if (parse_checksum_algorithm(*name) == promises.checksum) return {};
  return s3_error(S3Code::InvalidRequest,
                  "Value for x-amz-sdk-checksum-algorithm header is invalid.");
}

}  // namespace

S3Result<BodyPromises> body_promises(const S3Request& request, PayloadMode mode,
                                     const RawBody& raw) {
  BodyPromises promises;
  TRY(payload_bytes, payload_length(request, mode, raw));
  promises.payload_bytes = payload_bytes;
  const bool is_put = request.method == "PUT";
  const bool is_post = request.method == "POST";
  // Where there is no body, these headers speak of nothing: some clients send them with every GET.
  if (!is_put && !is_post && payload_bytes == 0) return promises;
  TRY(md5, content_md5(request));
  promises.content_md5 = md5;
  promises.etag = is_put && !request.key.empty();
  // A Complete's checksum headers are about the object that it makes.
  const bool is_complete = is_post && request.has_query("uploadId");
  if (!is_complete) {
    CHECK_OK(take_checksum_headers(promises, request));
  }
  CHECK_OK(take_trailer(promises, request, mode));
  if (!is_complete) {
    CHECK_OK(check_sdk_algorithm(promises, request));
  }
  return promises;
}

S3Result<std::string> parse_checksum(ChecksumAlgorithm algorithm, std::string_view text) {
  auto raw = base64_decode(text);
  if (raw && raw->size() == checksum_bytes(algorithm)) return std::move(*raw);
  return s3_error(S3Code::InvalidRequest, "Value for " + std::string(kChecksumPrefix) +
                                              std::string(to_string(algorithm)) +
                                              " header is invalid.");
}

}  // namespace penstock
