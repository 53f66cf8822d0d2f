#include "gateway/s3/conditional.h"

#include "gateway/s3/http_date.h"
#include "gateway/s3/http_text.h"
#include "gateway/s3/s3_xml_input.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

constexpr std::string_view kIfMatch = "if-match";
constexpr std::string_view kIfNoneMatch = "if-none-match";
constexpr std::string_view kIfModifiedSince = "if-modified-since";
constexpr std::string_view kIfUnmodifiedSince = "if-unmodified-since";
constexpr std::string_view kCopySource = "x-amz-copy-source-";
constexpr std::string_view kAny = "*";
constexpr std::string_view kWeak = "W/";
constexpr std::string_view kEtagBlanks = " \t";

std::string_view condition_name(std::string_view header) {
  if (header == kIfMatch) return "If-Match";
  if (header == kIfNoneMatch) return "If-None-Match";
  if (header == kIfModifiedSince) return "If-Modified-Since";
  return "If-Unmodified-Since";
}

std::optional<WallTime> header_date(const std::string* value) {
  if (value == nullptr) return std::nullopt;
  return parse_http_date(*value);
}

S3Error unsupported(std::string_view header) {
  S3Error error = s3_error(S3Code::NotImplemented);
  error.details.emplace_back("Header", std::string(condition_name(header)));
  return error;
}

bool names_an_etag(std::string_view list) {
  while (true) {
    const auto comma = list.find(',');
    std::string_view item = http_text::trim(list.substr(0, comma), kEtagBlanks);
    if (item.starts_with(kWeak)) item.remove_prefix(kWeak.size());
    if (!bare_etag(item).empty()) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

bool etag_listed(std::string_view list, std::string_view etag, EtagMatch match) {
  if (http_text::trim(list, kEtagBlanks) == kAny) return true;
  while (!list.empty()) {
    const auto comma = list.find(',');
    std::string_view item = http_text::trim(list.substr(0, comma), kEtagBlanks);
    if (item.starts_with(kWeak) && match == EtagMatch::weak) item.remove_prefix(kWeak.size());
    const std::string_view bare = bare_etag(item);
    if (!bare.empty() && bare == etag) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

S3Result<std::string> wanted_etag(std::string_view value) {
  value = http_text::trim(value, kEtagBlanks);
  if (value == kAny) return std::string(kAny);
  const std::string_view bare = bare_etag(value);
  // A quoted star is an ETag like any other, and no object has it; nor one that is so long.
  if (bare.empty() || bare == kAny || bare.size() > limits::kConditionBytesMax) {
    return precondition_failed(condition_name(kIfMatch));
  }
  return std::string(bare);
}

namespace {

// AWS serves "*" alone. An ETag is served, too; what is none must not pass for one that differs.
S3Result<std::string> unwanted_etag(std::string_view value) {
  value = http_text::trim(value, kEtagBlanks);
  if (value == kAny) return std::string(kAny);
  if (value.starts_with(kWeak)) value.remove_prefix(kWeak.size());
  const std::string_view bare = bare_etag(value);
  if (bare.empty()) return precondition_failed(condition_name(kIfNoneMatch));
  // A quoted star is an ETag that nothing has. Who sends it may well mean the other one.
  if (bare == kAny || bare.size() > limits::kConditionBytesMax) return unsupported(kIfNoneMatch);
  return std::string(bare);
}

}  // namespace

S3Result<Condition> write_condition(const S3Request& request) {
  for (const auto header : {kIfModifiedSince, kIfUnmodifiedSince}) {
    if (request.header(header) != nullptr) return unsupported(header);
  }
  Condition condition;
  for (const auto header : {kIfMatch, kIfNoneMatch}) {
    const std::string* value = request.header(header);
    if (value == nullptr) continue;
    if (value->find(',') != std::string::npos) return unsupported(header);
    TRY(etag, header == kIfMatch ? wanted_etag(*value) : unwanted_etag(*value));
    (header == kIfMatch ? condition.if_match : condition.if_none_match) = std::move(etag);
  }
  return condition;
}

S3Error write_failure(const Error& error, const Condition& condition) {
  if (error.code != Errc::precondition) return to_s3(error, S3Code::NoSuchKey);
  return precondition_failed(
      condition_name(condition.if_none_match.empty() ? kIfMatch : kIfNoneMatch));
}

ReadDecision check_read(const S3Request& request, std::string_view prefix, std::string_view etag,
                        WallTime modified) {
  const auto header = [&](std::string_view name) {
    if (prefix.empty()) return request.header(name);
    return request.header(std::string(prefix).append(name));
  };
  const WallTime shown = whole_seconds(modified);
  if (const std::string* list = header(kIfMatch)) {
    if (!etag_listed(*list, etag, EtagMatch::strong)) {
      return {ReadVerdict::failed, condition_name(kIfMatch)};
    }
  } else if (const auto date = header_date(header(kIfUnmodifiedSince)); date && shown > *date) {
    return {ReadVerdict::failed, condition_name(kIfUnmodifiedSince)};
  }
  if (const std::string* list = header(kIfNoneMatch)) {
    if (etag_listed(*list, etag, EtagMatch::weak)) {
      return {ReadVerdict::not_modified, condition_name(kIfNoneMatch)};
    }
  } else if (const auto date = header_date(header(kIfModifiedSince)); date && shown <= *date) {
    return {ReadVerdict::not_modified, condition_name(kIfModifiedSince)};
  }
  return {};
}

S3Result<> check_copy_conditions(const S3Request& request) {
  for (const auto condition : {kIfMatch, kIfNoneMatch}) {
    const std::string* list = request.header(std::string(kCopySource).append(condition));
    if (list == nullptr || names_an_etag(*list)) continue;
    return precondition_failed(std::string(kCopySource).append(condition_name(condition)));
  }
  for (const auto condition : {kIfModifiedSince, kIfUnmodifiedSince}) {
    const std::string name = std::string(kCopySource).append(condition);
    const std::string* date = request.header(name);
    if (date == nullptr || parse_http_date(*date)) continue;
    S3Error error = s3_error(S3Code::InvalidArgument, "The condition's date is malformed");
    error.details.emplace_back("ArgumentName", name);
    error.details.emplace_back("ArgumentValue", *date);
    return error;
  }
  return {};
}

bool range_still_valid(const S3Request& request, std::string_view etag, WallTime modified) {
  const std::string* value = request.header("if-range");
  if (value == nullptr) return true;
  if (const auto date = parse_http_date(*value)) return whole_seconds(modified) == *date;
  return bare_etag(*value) == etag;
}

}  // namespace penstock
