// A store of two accounts, a clock that stands at the examples' time, and an authenticator, for
// tests.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "gateway/auth/authenticator.h"
#include "tests/unit/gateway/auth/signing.h"

namespace penstock::testing {

class World {
 public:
  explicit World(Authenticator::Options options = {})
      : credentials(*CredentialStore::make(
            {{std::string(kAccessKey), std::string(kSecretKey), "owner-1", "One", ""},
             {"AKIDSECOND", "second-secret-key", "", "", ""}})),
        clock(*parse_amz_date(kTimestamp)),
        authenticator(credentials, clock, std::move(options)) {}
  S3Result<AuthResult> ask(const S3Request& request) { return authenticator.authenticate(request); }
  // The code of the refusal, or "ok".
  std::string code(const S3Request& request) {
    const auto result = ask(request);
    return result ? "ok" : std::string(code_name(result.error().code));
  }

  CredentialStore credentials;
  SetClock clock;
  Authenticator authenticator;
};

inline S3Request plain_get() {
  S3Request request = sent_request(
      "GET", "/bucket/key", {},
      {{"host", "127.0.0.1:9000"}, {"x-amz-content-sha256", std::string(kEmptySha256)}});
  request.bucket = "bucket";
  request.key = "key";
  return request;
}

inline S3Request unsigned_get() {
  S3Request request = plain_get();
  remove_header(request, "x-amz-content-sha256");
  return request;
}

inline std::string detail(const S3Error& error, std::string_view name) {
  for (const auto& [key, value] : error.details) {
    if (key == name) return value;
  }
  return "(absent)";
}

}  // namespace penstock::testing
