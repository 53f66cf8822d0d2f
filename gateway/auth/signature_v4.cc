#include "gateway/auth/signature_v4.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <charconv>
#include <cstdio>

#include "gateway/auth/canonical_text.h"
#include "gateway/s3/http_date.h"
#include "gateway/s3/http_text.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";
constexpr Duration kExpiresMax = std::chrono::days(7);

S3Error header_malformed(std::string_view what) {
  return s3_error(S3Code::AuthorizationHeaderMalformed,
                  "The authorization header is malformed; " + std::string(what));
}

S3Error query_malformed(std::string message) {
  return s3_error(S3Code::AuthorizationQueryParametersError, std::move(message));
}

S3Error scope_error(const V4Claim& claim, std::string what) {
  if (!claim.in_query) return header_malformed(what);
  return query_malformed("Error parsing the X-Amz-Credential parameter; " + what);
}

// Splits the credential from its end: only the access key may hold anything.
bool split_credential(V4Claim& claim) {
  std::string_view rest = claim.credential;
  std::string_view* const fields[] = {&claim.terminal, &claim.service, &claim.region, &claim.date};
  for (std::string_view* field : fields) {
    const std::size_t slash = rest.rfind('/');
    if (slash == std::string_view::npos) return false;
    *field = rest.substr(slash + 1);
    rest = rest.substr(0, slash);
  }
  claim.access_key = rest;
  claim.scope = claim.credential.substr(std::min(rest.size() + 1, claim.credential.size()));
  return !claim.access_key.empty() && claim.date.size() == 8;
}

bool take_amz_date(V4Claim& claim, std::string_view text) {
  const auto time = parse_amz_date(text);
  if (!time) return false;
  claim.time = *time;
  std::copy(text.begin(), text.end(), claim.timestamp.begin());
  return true;
}

// The time of a header-signed request: x-amz-date, or Date where the client set that one.
bool take_header_time(V4Claim& claim, const S3Request& request) {
  const std::string* text = request.header("x-amz-date");
  if (text == nullptr) text = request.header("date");
  if (text == nullptr) return false;
  if (take_amz_date(claim, *text)) return true;
  const auto time = parse_http_date(*text);
  if (!time || *time < WallTime{}) return false;
  claim.time = *time;
  claim.timestamp = amz_date(*time);
  return true;
}

bool parse_number(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && text[0] != '-';
}

S3Result<Duration> parse_expires(std::string_view text) {
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) {
    return query_malformed("X-Amz-Expires should be a number");
  }
  // Valid for less than no time: it has expired, and is told so as a version 2 link is.
  if (error == std::errc() && seconds < 0) return Duration(-1s);
  if (error != std::errc() || seconds > kExpiresMax / 1s) {
    return query_malformed(
        "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires "
        "must "
        "be less than 604800 seconds");
  }
  return Duration(std::chrono::seconds(seconds));
}

// Headers that nobody in between could use: see check_v4_headers().
bool may_be_unsigned(const S3Request& request, const V4Claim& claim, std::string_view name,
                     std::string_view value) {
  if (!name.starts_with("x-amz-")) return name != "host";
  if (name == "x-amz-user-agent") return true;
  if (name != "x-amz-content-sha256") return false;
  const auto covered = v4_payload_hash(request, claim);
  return covered && *covered == value;
}

bool is_signed(const V4Claim& claim, std::string_view name) {
  std::string_view list = claim.signed_headers;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(';'), list.size());
    if (list.substr(0, end) == name) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

}  // namespace

bool has_v4_query(const S3Request& request) {
  return request.has_query("X-Amz-Algorithm") || request.has_query("X-Amz-Signature") ||
         request.has_query("X-Amz-Credential");
}

S3Result<V4Claim> parse_v4_header(const S3Request& request, std::string_view authorization) {
  V4Claim claim;
  std::string_view rest = authorization.substr(kV4Algorithm.size());
  const std::pair<std::string_view, std::string_view*> components[] = {
      {"Credential=", &claim.credential},
      {"SignedHeaders=", &claim.signed_headers},
      {"Signature=", &claim.signature},
  };
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    std::string_view item = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    const auto component =
        std::find_if(std::begin(components), std::end(components),
                     [item](const auto& c) { return item.starts_with(c.first); });
    if (component == std::end(components) || !component->second->empty()) {
      return header_malformed("the authorization component \"" + std::string(item) +
                              "\" is malformed.");
    }
    *component->second = item.substr(component->first.size());
  }
  if (claim.credential.empty() || claim.signed_headers.empty() || claim.signature.empty()) {
    return header_malformed(
        "the authorization header requires three components: Credential, SignedHeaders, and "
        "Signature.");
  }
  if (!split_credential(claim)) {
    return header_malformed(
        "the Credential is mal-formed; expecting "
        "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".");
  }
  if (!take_header_time(claim, request)) {
    return s3_error(S3Code::AccessDenied,
                    "AWS authentication requires a valid Date or x-amz-date header");
  }
  return claim;
}

S3Result<V4Claim> parse_v4_query(const S3Request& request) {
  V4Claim claim;
  claim.in_query = true;
  std::string_view algorithm, time, expires;
  const std::pair<std::string_view, std::string_view*> parameters[] = {
      {"X-Amz-Algorithm", &algorithm},       {"X-Amz-Credential", &claim.credential},
      {"X-Amz-Signature", &claim.signature}, {"X-Amz-Date", &time},
      {"X-Amz-Expires", &expires},           {"X-Amz-SignedHeaders", &claim.signed_headers},
  };
  for (const auto& [name, value] : request.query) {
    if (!name.starts_with("X-Amz-")) continue;
    const auto parameter = std::find_if(std::begin(parameters), std::end(parameters),
                                        [&name = name](const auto& p) { return p.first == name; });
    if (parameter == std::end(parameters)) continue;
    if (!parameter->second->empty()) {
      return query_malformed("The query parameter " + name + " is given twice");
    }
    *parameter->second = value;
  }
  for (const auto& [name, value] : parameters) {
    if (!value->empty()) continue;
    return query_malformed(
        "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, "
        "X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.");
  }
  if (algorithm != kV4Algorithm) {
    return query_malformed("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"");
  }
  if (!split_credential(claim)) {
    return query_malformed(
        "Error parsing the X-Amz-Credential parameter; the Credential is mal-formed; expecting "
        "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".");
  }
  if (!take_amz_date(claim, time)) {
    return query_malformed(
        "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"");
  }
  TRY(valid_for, parse_expires(expires));
  claim.expires = valid_for;
  return claim;
}

S3Result<> check_v4_scope(const V4Claim& claim, std::string_view region) {
  const std::string_view day = claim.timestamp_text().substr(0, 8);
  if (claim.date != day) {
    return scope_error(claim, "Invalid credential date \"" + std::string(claim.date) +
                                  "\". This date is not the same as X-Amz-Date: \"" +
                                  std::string(day) + "\".");
  }
  if (claim.service != "s3") {
    return scope_error(claim, "incorrect service \"" + std::string(claim.service) +
                                  "\". This endpoint belongs to \"s3\".");
  }
  if (claim.terminal != "aws4_request") {
    return scope_error(claim, "incorrect terminal \"" + std::string(claim.terminal) +
                                  "\". This endpoint uses \"aws4_request\".");
  }
  if (!region.empty() && claim.region != region) {
    S3Error error = scope_error(claim, "the region '" + std::string(claim.region) +
                                           "' is wrong; expecting '" + std::string(region) + "'");
    error.details.emplace_back("Region", std::string(region));
    return error;
  }
  return {};
}

S3Result<> check_v4_headers(const S3Request& request, const V4Claim& claim) {
  // A name that is listed twice would let a small request make a large canonical text.
  boost::container::small_vector<bool, 64> listed(request.headers.size(), false);
  for (const std::string_view name : split_names(claim.signed_headers)) {
    const auto found = std::find_if(request.headers.begin(), request.headers.end(),
                                    [name](const auto& header) { return header.first == name; });
    const auto index = static_cast<std::size_t>(found - request.headers.begin());
    if (found == request.headers.end() || listed[index]) {
      return s3_error(S3Code::SignatureDoesNotMatch);
    }
    listed[index] = true;
  }
  std::string unsigned_names;
  for (const auto& [name, value] : request.headers) {
    if (may_be_unsigned(request, claim, name, value) || is_signed(claim, name)) continue;
    if (!unsigned_names.empty()) unsigned_names += ", ";
    unsigned_names += name;
  }
  if (unsigned_names.empty() && is_signed(claim, "host")) return {};
  S3Error error = s3_error(S3Code::AccessDenied,
                           "There were headers present in the request which were not signed");
  error.details.emplace_back("HeadersNotSigned", unsigned_names.empty() ? "host" : unsigned_names);
  return error;
}

S3Result<std::string_view> v4_payload_hash(const S3Request& request, const V4Claim& claim) {
  const auto twice = [] {
    return s3_error(S3Code::InvalidArgument, "x-amz-content-sha256 is given more than once");
  };
  const std::string* header = nullptr;
  for (const auto& [name, text] : request.headers) {
    if (name != "x-amz-content-sha256") continue;
    if (header != nullptr) return twice();
    header = &text;
  }
  if (!claim.in_query) {
    if (header != nullptr) return std::string_view(*header);
    return s3_error(S3Code::InvalidRequest,
                    "Missing required header for this request: x-amz-content-sha256");
  }
  const std::string* parameter = nullptr;
  for (const auto& [name, text] : request.query) {
    if (!http_text::equals_lower(name, "x-amz-content-sha256")) continue;
    if (parameter != nullptr) return twice();
    parameter = &text;
  }
  if (header != nullptr && is_signed(claim, "x-amz-content-sha256")) {
    if (parameter != nullptr && *parameter != *header) return twice();
    return std::string_view(*header);
  }
  return parameter != nullptr ? std::string_view(*parameter) : kUnsignedPayload;
}

HmacSha256 v4_signing_key(std::string_view secret_key, std::string_view date,
                          std::string_view region, std::string_view service) {
  HmacSha256 key(as_bytes("AWS4" + std::string(secret_key)));
  for (const std::string_view step : {date, region, service, std::string_view("aws4_request")}) {
    const Sha256Digest next = key.sign(as_bytes(step));
    key = HmacSha256(std::as_bytes(std::span(next)));
  }
  return key;
}

std::string v4_canonical_request(const S3Request& request, const V4Claim& claim,
                                 std::string_view path, std::string_view payload_hash) {
  std::string text;
  text.reserve(1024);
  text.append(request.method).append("\n").append(path).append("\n");
  append_canonical_query(text, request, claim.in_query ? "X-Amz-Signature" : "");
  text += '\n';
  for (const std::string_view name : split_names(claim.signed_headers)) {
    append_canonical_header(text, request, name);
  }
  text.append("\n").append(claim.signed_headers).append("\n").append(payload_hash);
  return text;
}

std::string v4_string_to_sign(const V4Claim& claim, std::string_view canonical_request) {
  const Sha256Digest hash = sha256(as_bytes(canonical_request));
  std::string text;
  text.reserve(160);
  text.append(kV4Algorithm).append("\n").append(claim.timestamp_text()).append("\n");
  text.append(claim.scope).append("\n").append(hex_encode(std::as_bytes(std::span(hash))));
  return text;
}

std::optional<WallTime> parse_amz_date(std::string_view text) {
  if (text.size() != 16 || text[8] != 'T' || text[15] != 'Z') return std::nullopt;
  int year, month, day, hour, minute, second;
  const bool numbers =
      parse_number(text.substr(0, 4), year) && parse_number(text.substr(4, 2), month) &&
      parse_number(text.substr(6, 2), day) && parse_number(text.substr(9, 2), hour) &&
      parse_number(text.substr(11, 2), minute) && parse_number(text.substr(13, 2), second);
  if (!numbers || hour > 23 || minute > 59 || second > 59) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || year < 1970) return std::nullopt;
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(hour) +
         std::chrono::minutes(minute) + std::chrono::seconds(second);
}

std::array<char, 16> amz_date(WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::seconds>(time - day));
  std::array<char, 64> text;  // the compiler does not know that a year has four digits
  std::snprintf(text.data(), text.size(), "%04d%02u%02uT%02d%02d%02dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  std::array<char, 16> result;
  std::copy_n(text.begin(), result.size(), result.begin());
  return result;
}

}  // namespace penstock
