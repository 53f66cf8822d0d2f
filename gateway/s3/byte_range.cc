#include "gateway/s3/byte_range.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "gateway/s3/http_text.h"

namespace penstock {
namespace {

constexpr std::string_view kUnit = "bytes=";
constexpr std::string_view kBlanks = " \t";

// Digits only; what does not fit 64 bits is their largest number.
std::optional<std::uint64_t> parse_position(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return std::numeric_limits<std::uint64_t>::max();
  return value;
}

}  // namespace

RangeAnswer parse_range(std::string_view header, std::uint64_t size) {
  const RangeAnswer whole;
  header = http_text::trim(header, kBlanks);
  if (!header.starts_with(kUnit)) return whole;
  const std::string_view spec = http_text::trim(header.substr(kUnit.size()), kBlanks);
  const auto dash = spec.find('-');
  if (dash == std::string_view::npos) return whole;
  const std::string_view left = http_text::trim(spec.substr(0, dash), kBlanks);
  const std::string_view right = http_text::trim(spec.substr(dash + 1), kBlanks);
  const auto last = parse_position(right);
  if (left.empty()) {  // the last n bytes
    if (!last) return whole;
    const std::uint64_t length = std::min(*last, size);
    if (length == 0) return {RangeKind::unsatisfied, {}};
    return {RangeKind::part, {size - length, length}};
  }
  const auto first = parse_position(left);
  if (!first || (!right.empty() && (!last || *last < *first))) return whole;
  if (*first >= size) return {RangeKind::unsatisfied, {}};
  const std::uint64_t end = right.empty() ? size : std::min(size - 1, *last) + 1;
  return {RangeKind::part, {*first, end - *first}};
}

S3Result<ByteRange> parse_copy_range(std::string_view header, std::uint64_t size) {
  const auto bad = [] {
    return s3_error(S3Code::InvalidArgument,
                    "The x-amz-copy-source-range value must be of the form bytes=first-last where "
                    "first and last are the zero-based offsets of the first and last bytes to "
                    "copy");
  };
  if (!header.starts_with(kUnit)) return bad();
  const std::string_view spec = header.substr(kUnit.size());
  const auto dash = spec.find('-');
  if (dash == std::string_view::npos) return bad();
  const auto first = parse_position(spec.substr(0, dash));
  const auto last = parse_position(spec.substr(dash + 1));
  if (!first || !last || *last < *first) return bad();
  if (*last >= size) {
    S3Error error =
        s3_error(S3Code::InvalidArgument,
                 "Range specified is not valid for source object of size: " + std::to_string(size));
    error.details.emplace_back("ArgumentName", "x-amz-copy-source-range");
    error.details.emplace_back("ArgumentValue", std::string(header));
    return error;
  }
  return ByteRange{*first, *last - *first + 1};
}

S3Error range_not_satisfiable(std::string_view requested, std::uint64_t size) {
  S3Error error = s3_error(S3Code::InvalidRange);
  error.details.emplace_back("RangeRequested", std::string(requested));
  error.details.emplace_back("ActualObjectSize", std::to_string(size));
  error.headers.emplace_back("Content-Range", "bytes */" + std::to_string(size));
  return error;
}

std::string content_range(ByteRange range, std::uint64_t size) {
  return "bytes " + std::to_string(range.first) + '-' +
         std::to_string(range.first + range.length - 1) + '/' + std::to_string(size);
}

}  // namespace penstock
