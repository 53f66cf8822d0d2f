#include "gateway/request_head.h"

#include <optional>

#include "gateway/http_text.h"
#include "gateway/percent_encoding.h"

namespace penstock {
namespace {
S3Error invalid_uri() { return s3_error(S3Code::InvalidURI, "Couldn't parse the specified URI."); }

// NUL ends keys in rows of the index and no client sends it.
std::optional<std::string> decode_name(std::string_view text) {
  auto decoded = percent_decode(text);
  if (decoded && decoded->find('\0') != std::string::npos) return std::nullopt;
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
    const std::size_t equals = pair.find('=');
    auto name = decode_query_text(pair.substr(0, equals));
    auto value = equals == std::string_view::npos ? std::string()
                                                  : decode_query_text(pair.substr(equals + 1));
    if (!name || !value) return false;
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
}  // namespace

S3Result<S3Request> make_s3_request(const HttpHead& head, const std::vector<std::string>& domains) {
  S3Request request;
  request.method = std::string(head.method);
  const std::size_t question = head.target.find('?');
  const std::string_view path = head.target.substr(0, question);
  request.path = std::string(path);
  request.headers.reserve(head.fields.size());
  for (const HttpField& field : head.fields) {
    request.headers.emplace_back(http_text::lower(field.name), std::string(field.value));
  }
  std::string bucket_from_host;
  if (!domains.empty()) {
    bucket_from_host = bucket_of_host(head.field("host").value_or(std::string_view()), domains);
  }
  if (!decode_path(path, std::move(bucket_from_host), request)) return invalid_uri();
  if (question != std::string_view::npos &&
      !decode_query(head.target.substr(question + 1), request)) {
    return invalid_uri();
  }
  return request;
}

}  // namespace penstock
