#include "gateway/request_head.h"

#include <algorithm>
#include <array>
#include <optional>

#include "gateway/s3/http_text.h"
#include "gateway/s3/percent_encoding.h"
#include "gateway/s3/utf8.h"
#include "penstock/limits.h"

namespace penstock {
namespace {
S3Error invalid_uri() { return s3_error(S3Code::InvalidURI, "Couldn't parse the specified URI."); }

// Names are UTF-8. NUL ends keys in rows of the index and no client sends it.
std::optional<std::string> decode_name(std::string_view text) {
  auto decoded = percent_decode(text);
  if (decoded && (decoded->find('\0') != std::string::npos || !is_utf8(*decoded))) {
    return std::nullopt;
  }
  return decoded;
}

// In queries, unlike in paths, "+" is a blank (HTML 4.01 17.13.4.1); signers write %20 or %2B.
std::optional<std::string> decode_query_text(std::string_view text) {
  if (text.find('+') == std::string_view::npos) return percent_decode(text);
  std::string blanks(text);
  for (char& c : blanks) {
    if (c == '+') c = ' ';
  }
  return percent_decode(blanks);
}

bool decode_query(std::string_view query, S3Request& request) {
  while (!query.empty()) {
    const std::size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view() : query.substr(end + 1);
    if (pair.empty()) continue;
    if (request.query.size() == limits::kQueryParametersMax) return false;
    const std::size_t equals = pair.find('=');
    auto name = decode_query_text(pair.substr(0, equals));
    auto value = equals == std::string_view::npos ? std::string()
                                                  : decode_query_text(pair.substr(equals + 1));
    if (!name || !value || !is_utf8(*name) || !is_utf8(*value)) return false;
    request.query.emplace_back(std::move(*name), std::move(*value));
  }
  return true;
}

std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

// The bucket that the host names; empty for path style. A host that is itself a domain is path
// style even when it is the sub-domain of another one.
std::string bucket_of_host(std::string_view host, const std::vector<std::string>& domains) {
  const std::string name = http_text::lower(without_port(host));
  std::size_t longest = 0;
  for (const std::string& domain : domains) {
    if (name == domain) return {};
    const std::string suffix = "." + domain;
    if (name.size() > suffix.size() && name.ends_with(suffix)) {
      longest = std::max(longest, suffix.size());
    }
  }
  return longest == 0 ? std::string() : name.substr(0, name.size() - longest);
}

// "/bucket/key" or "/key".
bool decode_path(std::string_view path, std::string bucket_from_host, S3Request& request) {
  if (!path.starts_with('/')) return true;  // "*": about no resource
  std::string_view key = path.substr(1);
  if (bucket_from_host.empty()) {
    const std::size_t end = key.find('/');
    auto bucket = decode_name(key.substr(0, end));
    if (!bucket) return false;
    request.bucket = std::move(*bucket);
    key = end == std::string_view::npos ? std::string_view() : key.substr(end + 1);
  } else {
    request.bucket = std::move(bucket_from_host);
  }
  auto decoded = decode_name(key);
  if (!decoded || (request.bucket.empty() && !decoded->empty())) return false;
  request.key = std::move(*decoded);
  return true;
}

// Lists by definition: RFC 9110 has most of them.
constexpr std::array<std::string_view, 8> kLists{"cache-control",
                                                 "content-encoding",
                                                 "content-language",
                                                 "if-match",
                                                 "if-none-match",
                                                 "x-amz-object-attributes",
                                                 "x-amz-optional-object-attributes",
                                                 "x-amz-trailer"};

bool is_list(std::string_view name) {
  return name.starts_with("x-amz-meta-") ||
         std::find(kLists.begin(), kLists.end(), name) != kLists.end();
}

// Headers that authenticators or operations read.
bool means_something(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames{"authorization", "date",   "expires",
                                                   "host",          "origin", "range"};
  constexpr std::array<std::string_view, 5> kPrefixes{"x-amz-", "content-", "if-",
                                                      "access-control-", "amz-sdk-"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end() || is_list(name);
}

S3Error given_twice(std::string_view what, const std::string& name) {
  S3Error error =
      s3_error(S3Code::InvalidArgument,
               std::string(what).append(" ").append(name).append(" is given more than once"));
  error.details.emplace_back("ArgumentName", name);
  return error;
}

S3Result<> take_headers(const HttpHead& head, S3Request& request) {
  request.headers.reserve(head.fields.size());
  for (const HttpField& field : head.fields) {
    std::string name = http_text::lower(field.name);
    const auto same = std::find_if(request.headers.begin(), request.headers.end(),
                                   [&name](const auto& header) { return header.first == name; });
    if (same == request.headers.end() || !means_something(name)) {
      request.headers.emplace_back(std::move(name), std::string(field.value));
    } else if (is_list(name)) {
      same->second.append(",").append(field.value);
    } else {
      return given_twice("The header", name);
    }
  }
  return {};
}

// There may be many of them, so they are sorted first.
S3Result<> check_parameters(const S3Request& request) {
  std::vector<const std::string*> names;
  names.reserve(request.query.size());
  for (const auto& [name, value] : request.query) names.push_back(&name);
  std::sort(names.begin(), names.end(),
            [](const std::string* a, const std::string* b) { return *a < *b; });
  const auto repeated =
      std::adjacent_find(names.begin(), names.end(),
                         [](const std::string* a, const std::string* b) { return *a == *b; });
  if (repeated == names.end()) return {};
  return given_twice("The query parameter", **repeated);
}
}  // namespace

S3Result<S3Request> make_s3_request(const HttpHead& head, const std::vector<std::string>& domains) {
  S3Request request;
  request.method = std::string(head.method);
  const std::size_t question = head.target.find('?');
  const std::string_view path = head.target.substr(0, question);
  request.path = std::string(path);
  CHECK_OK(take_headers(head, request));
  std::string bucket_from_host;
  if (!domains.empty()) {
    bucket_from_host = bucket_of_host(head.field("host").value_or(std::string_view()), domains);
  }
  if (!decode_path(path, std::move(bucket_from_host), request)) return invalid_uri();
  if (question != std::string_view::npos &&
      !decode_query(head.target.substr(question + 1), request)) {
    return invalid_uri();
  }
  CHECK_OK(check_parameters(request));
  return request;
}

}  // namespace penstock
