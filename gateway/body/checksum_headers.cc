#include "gateway/body/checksum_headers.h"

#include <charconv>

#include "gateway/s3/http_text.h"
#include "penstock/limits.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

constexpr std::string_view kHeader = "x-amz-checksum-";

S3Error type_not_allowed(std::string_view algorithm, std::string_view type) {
  std::string message = "The ";
  message.append(type).append(" checksum type cannot be used with the ").append(algorithm);
  return s3_error(S3Code::InvalidRequest, message.append(" checksum algorithm."));
}

S3Error unsupported_algorithm() {
  return s3_error(S3Code::InvalidRequest,
                  "Checksum algorithm provided is unsupported. Please try again with any of the "
                  "valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]");
}

// Splits "value-N"; base64 of these algorithms has no dash.
std::optional<std::uint32_t> take_part_count(std::string_view& text) {
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(dash + 1);
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  text = text.substr(0, dash);
  return count;
}

}  // namespace

std::string_view to_string(ChecksumType type) {
  return type == ChecksumType::composite ? "COMPOSITE" : "FULL_OBJECT";
}

std::optional<ChecksumType> parse_checksum_type(std::string_view text) {
  if (http_text::equals_lower(text, "full_object")) return ChecksumType::full_object;
  if (http_text::equals_lower(text, "composite")) return ChecksumType::composite;
  return std::nullopt;
}

std::string checksum_text(const StoredChecksum& checksum, std::uint32_t part_count) {
  std::string text = base64_encode(checksum.raw);
  if (checksum.type == ChecksumType::composite && part_count > 0) {
    text.append("-").append(std::to_string(part_count));
  }
  return text;
}

void set_checksum(S3Response& response, const StoredChecksum& checksum, std::uint32_t part_count) {
  if (checksum.algorithm == ChecksumAlgorithm::none) return;
  response.set(std::string(kHeader).append(to_string(checksum.algorithm)),
               checksum_text(checksum, part_count));
  response.set("x-amz-checksum-type", std::string(to_string(checksum.type)));
}

void write_checksum(XmlWriter& xml, const StoredChecksum& checksum, std::uint32_t part_count) {
  if (checksum.algorithm == ChecksumAlgorithm::none) return;
  xml.element(std::string("Checksum").append(s3_name(checksum.algorithm)),
              checksum_text(checksum, part_count));
}

ChecksumAlgorithm named_checksum(const S3Request& request) {
  for (const auto& [name, value] : request.headers) {
    const bool trailer = name == "x-amz-trailer";
    const std::string lower_name = trailer ? http_text::lower(value) : name;
    if (!lower_name.starts_with(kHeader)) continue;
    const auto algorithm =
        parse_checksum_algorithm(std::string_view(lower_name).substr(kHeader.size()));
    if (algorithm) return *algorithm;
  }
  return ChecksumAlgorithm::none;
}

S3Result<ChecksumAlgorithm> body_algorithm(const S3Request& request) {
  const ChecksumAlgorithm named = named_checksum(request);
  const std::string* text = request.header("x-amz-checksum-algorithm");
  if (text == nullptr) return named;
  const auto asked = parse_checksum_algorithm(*text);
  if (!asked) return unsupported_algorithm();
  if (named != ChecksumAlgorithm::none && named != *asked) {
    return s3_error(S3Code::InvalidRequest,
                    "x-amz-checksum-algorithm and the checksum of the body name two algorithms.");
  }
  return *asked;
}

StoredChecksum body_checksum(const BodyReader& body) {
  const BodyReader::Checksum found = body.checksum();
  const auto algorithm = parse_checksum_algorithm(found.algorithm);
  if (!algorithm) return {};
  return {*algorithm, ChecksumType::full_object, found.raw};
}

bool wants_checksum(const S3Request& request) {
  const std::string* mode = request.header("x-amz-checksum-mode");
  return mode != nullptr && http_text::equals_lower(*mode, "enabled");
}

S3Result<WholeChecksum> whole_checksum(const S3Request& request) {
  WholeChecksum whole;
  for (const auto& [name, value] : request.headers) {
    if (!name.starts_with(kHeader)) continue;
    const std::string_view kind = std::string_view(name).substr(kHeader.size());
    if (kind == "type" || kind == "mode" || kind == "algorithm") continue;
    const auto algorithm = parse_checksum_algorithm(kind);
    if (!algorithm) return unsupported_algorithm();
    if (whole.checksum.algorithm != ChecksumAlgorithm::none) {
      return s3_error(S3Code::InvalidRequest,
                      "Expecting a single x-amz-checksum- header. Multiple checksum Types are not "
                      "allowed.");
    }
    std::string_view text = value;
    whole.part_count = take_part_count(text);
    const auto raw = base64_decode(text);
    if (!raw || raw->size() != checksum_bytes(*algorithm)) return s3_error(S3Code::BadDigest);
    whole.checksum.algorithm = *algorithm;
    whole.checksum.type = whole.part_count ? ChecksumType::composite : ChecksumType::full_object;
    whole.checksum.raw = *raw;
  }
  return whole;
}

S3Result<ChecksumChoice> checksum_choice(const S3Request& request) {
  const std::string* name = request.header("x-amz-checksum-algorithm");
  const std::string* type_name = request.header("x-amz-checksum-type");
  ChecksumChoice choice;
  if (name != nullptr) {
    const auto algorithm = parse_checksum_algorithm(*name);
    if (!algorithm) return unsupported_algorithm();
    choice.algorithm = *algorithm;
    choice.type = *algorithm == ChecksumAlgorithm::crc64nvme ? ChecksumType::full_object
                                                             : ChecksumType::composite;
  }
  if (type_name == nullptr) return choice;
  const auto type = parse_checksum_type(*type_name);
  if (!type) {
    return s3_error(S3Code::InvalidRequest, "Value for x-amz-checksum-type header is invalid.");
  }
  if (choice.algorithm == ChecksumAlgorithm::none) {
    return s3_error(S3Code::InvalidRequest,
                    "The x-amz-checksum-type header can only be used with the "
                    "x-amz-checksum-algorithm header.");
  }
  const bool allowed = *type == ChecksumType::full_object
                           ? is_combinable(choice.algorithm)
                           : choice.algorithm != ChecksumAlgorithm::crc64nvme;
  if (!allowed) return type_not_allowed(s3_name(choice.algorithm), to_string(*type));
  choice.type = *type;
  return choice;
}

}  // namespace penstock
