// Arbitrary requests, half of them with a well-formed claim in front, at the authenticator. Without
// the secret nobody is let in, and every refusal is one of S3's. What links carry in their query
// never becomes a header that HTTP could not have brought, nor a second one of a name.
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/auth/authenticator.h"
#include "gateway/auth/query_headers.h"
#include "gateway/operations/known_headers.h"
#include "gateway/s3/conditional.h"
#include "gateway/s3/http_text.h"
#include "gateway/s3/percent_encoding.h"

namespace {
using namespace penstock;

void require(bool claim) {
  if (!claim) std::abort();
}

class StoppedClock final : public Clock {
 public:
  WallTime wall() const override { return *parse_amz_date("20130524T000000Z"); }
  BootTime boot() const override { return {}; }
  Awaitable<void> sleep_until(BootTime) override { co_return; }
};

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Lines: method, path, then "?name=value" for the query and "name:value" for headers.
S3Request make_request(std::string_view text) {
  S3Request request;
  request.method = take_line(text);
  request.path = take_line(text);
  const std::string key = percent_decode(request.path).value_or("");
  request.bucket = key.substr(0, key.find('/', 1));
  request.key = key.substr(std::min(key.size(), request.bucket.size() + 1));
  constexpr std::size_t kFieldsMax = 200;
  while (!text.empty() && request.headers.size() + request.query.size() < kFieldsMax) {
    const std::string_view line = take_line(text);
    const bool in_query = line.starts_with('?');
    const std::size_t split = std::min(line.find(in_query ? '=' : ':'), line.size());
    const std::string name(line.substr(0, split).substr(in_query ? 1 : 0));
    const std::string value(line.substr(std::min(split + 1, line.size())));
    (in_query ? request.query : request.headers).emplace_back(name, value);
  }
  return request;
}

void add_claim(S3Request& request, std::uint8_t kind) {
  constexpr std::string_view kCredential = "AKIAIOSFODNN7EXAMPLE/20130524/r/s3/aws4_request";
  const std::string signature(64, 'a');
  if (kind == 1) {
    request.headers.emplace_back("x-amz-date", "20130524T000000Z");
    request.headers.emplace_back("authorization",
                                 "AWS4-HMAC-SHA256 Credential=" + std::string(kCredential) +
                                     ",SignedHeaders=host;x-amz-date,Signature=" + signature);
  } else if (kind == 2) {
    request.query.emplace_back("X-Amz-Algorithm", "AWS4-HMAC-SHA256");
    request.query.emplace_back("X-Amz-Credential", kCredential);
    request.query.emplace_back("X-Amz-Date", "20130524T000000Z");
    request.query.emplace_back("X-Amz-Expires", "60");
    request.query.emplace_back("X-Amz-SignedHeaders", "host");
    request.query.emplace_back("X-Amz-Signature", signature);
  } else if (kind == 3) {
    request.query.emplace_back("AWSAccessKeyId", "AKIAIOSFODNN7EXAMPLE");
    request.query.emplace_back("Expires", "9999999999");
    request.query.emplace_back("Signature", "qgk2+6Sv9/oM7G3qLEjTH1a1l1g=");
  }
}
void check_query_headers(S3Request request, SignedBy by) {
  const std::size_t sent = request.headers.size();
  const auto taken = take_query_headers(request, by);
  const int status = taken ? 400 : http_status(taken.error().code);
  require(status == 400 || status == 403);
  for (std::size_t i = sent; i < request.headers.size(); ++i) {
    const auto& [name, value] = request.headers[i];
    require(http_text::is_token(name) && http_text::is_field_value(value));
    require(request.header(name) == &value);
  }
  const auto known = check_known_headers(Operation::PutObject, request);
  const auto condition = write_condition(request);
  const bool conditional = request.header("if-match") || request.header("if-none-match");
  require(!conditional || !condition || !condition->empty());
  require(known || known.error().code == S3Code::NotImplemented);
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const StoppedClock clock;
  static const auto credentials = *CredentialStore::make(
      {{"AKIAIOSFODNN7EXAMPLE", "s0me-s3cret-that-no-input-h0lds", "", "", ""}});
  if (size == 0) return 0;
  S3Request request = make_request({reinterpret_cast<const char*>(data + 1), size - 1});
  add_claim(request, data[0] % 6);
  Authenticator authenticator(credentials, clock, {"us-east-1", data[0] >= 128});
  const auto result = authenticator.authenticate(request);
  require(!result);
  const int status = http_status(result.error().code);
  require(status == 400 || status == 403);
  for (const SignedBy by :
       {SignedBy::v4_header, SignedBy::v4_query, SignedBy::v2_header, SignedBy::v2_query}) {
    check_query_headers(request, by);
  }
  return 0;
}
