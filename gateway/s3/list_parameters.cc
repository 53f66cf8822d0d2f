#include "gateway/s3/list_parameters.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "gateway/s3/http_text.h"
#include "gateway/s3/percent_encoding.h"
#include "penstock/text_codec.h"
#include "server/index/list_page.h"

namespace penstock {
namespace {

constexpr char kKeyToken = 'k';     // the rest is a key, in hexadecimal
constexpr char kPrefixToken = 'p';  // ... a common prefix

}  // namespace

S3Result<std::size_t> page_size(const S3Request& request, std::string_view name, std::size_t most) {
  const std::string* value = request.query_value(name);
  if (value == nullptr || value->empty()) return most;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc{} || end != value->data() + value->size() ||
      number > std::numeric_limits<std::int32_t>::max()) {
    S3Error bad = s3_error(S3Code::InvalidArgument, "Argument " + std::string(name) +
                                                        " must be an integer between 0 and "
                                                        "2147483647");
    bad.details.emplace_back("ArgumentName", std::string(name));
    bad.details.emplace_back("ArgumentValue", *value);
    return bad;
  }
  return std::min<std::size_t>(number, most);
}

ListStart start_after(std::string_view marker, std::string_view prefix,
                      std::string_view delimiter) {
  return {std::string(marker), is_common_prefix(marker, prefix, delimiter)};
}

std::string encode_token(const ListStart& start) {
  std::string token(1, start.is_prefix ? kPrefixToken : kKeyToken);
  return token += hex_encode(start.after);
}

std::optional<ListStart> decode_token(std::string_view token) {
  if (token.empty() || (token.front() != kKeyToken && token.front() != kPrefixToken)) {
    return std::nullopt;
  }
  auto after = hex_decode(token.substr(1));
  if (!after) return std::nullopt;
  return ListStart{std::move(*after), token.front() == kPrefixToken};
}

S3Result<KeyEncoding> KeyEncoding::of(const S3Request& request) {
  KeyEncoding encoding;
  const std::string* type = request.query_value("encoding-type");
  if (type == nullptr || type->empty()) return encoding;
  if (!http_text::equals_lower(*type, "url")) {
    return s3_error(S3Code::InvalidArgument, "Invalid Encoding Method specified in Request");
  }
  encoding.url_ = true;
  return encoding;
}

void KeyEncoding::write(XmlWriter& xml, std::string_view name, std::string_view key) const {
  if (url_) {
    xml.element(name, percent_encode(key, true));
  } else {
    xml.element(name, key);
  }
}

std::size_t KeyEncoding::bytes_max(std::string_view key) const {
  return url_ ? 3 * key.size() : escaped_bytes_max(key);
}

void KeyEncoding::write_type(XmlWriter& xml) const {
  if (url_) xml.element("EncodingType", "url");
}

std::string query_text(const S3Request& request, std::string_view name) {
  const std::string* value = request.query_value(name);
  return value == nullptr ? std::string() : *value;
}

}  // namespace penstock
