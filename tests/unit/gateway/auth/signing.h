// The client's side of Signature Version 4 for tests: requests as S3's examples have them, and
// signed ones.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/auth/signature_v4.h"
#include "gateway/s3/request.h"
#include "penstock/runtime.h"
#include "penstock/text_codec.h"

namespace penstock::testing {

// Of the examples in the S3 API Reference.
inline constexpr std::string_view kAccessKey = "AKIAIOSFODNN7EXAMPLE";
inline constexpr std::string_view kSecretKey = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
inline constexpr std::string_view kTimestamp = "20130524T000000Z";
inline constexpr std::string_view kEmptySha256 =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// Stands still.
class SetClock final : public Clock {
 public:
  explicit SetClock(WallTime now) : now_(now) {}
  WallTime wall() const override { return now_; }
  BootTime boot() const override { return {}; }
  Awaitable<void> sleep_until(BootTime) override { co_return; }
  void set(WallTime now) { now_ = now; }

 private:
  WallTime now_;
};

inline std::string hex_of(const auto& digest) {
  return hex_encode(std::as_bytes(std::span(digest)));
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

inline S3Request sent_request(std::string method, std::string path, Pairs query, Pairs headers) {
  S3Request request;
  request.method = std::move(method);
  request.path = std::move(path);
  request.query = std::move(query);
  request.headers = std::move(headers);
  return request;
}

inline void set_header(S3Request& request, std::string_view name, std::string value) {
  for (auto& [header, text] : request.headers) {
    if (header != name) continue;
    text = std::move(value);
    return;
  }
  request.headers.emplace_back(std::string(name), std::move(value));
}

inline void remove_header(S3Request& request, std::string_view name) {
  std::erase_if(request.headers, [name](const auto& header) { return header.first == name; });
}

// The ';'-list of all header names, sorted and each once.
inline std::string all_header_names(const S3Request& request) {
  std::vector<std::string> names;
  for (const auto& [name, value] : request.headers) {
    if (name != "authorization") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ";") + name;
  return list;
}

struct SignWith {
  std::string access_key{kAccessKey};
  std::string secret_key{kSecretKey};
  std::string timestamp{kTimestamp};
  std::string region = "us-east-1";
  std::string service = "s3";
  std::string path;            // as signed, if not as sent
  std::string signed_headers;  // all, if empty
  std::string expires = "600";
};

inline V4Claim claim_of(const SignWith& with, const std::string& scope,
                        const std::string& signed_headers) {
  V4Claim claim;
  claim.scope = scope;
  claim.signed_headers = signed_headers;
  std::copy_n(with.timestamp.begin(), 16, claim.timestamp.begin());
  return claim;
}

inline std::string signature_of(const S3Request& request, const SignWith& with, V4Claim claim,
                                std::string_view payload_hash) {
  const std::string path = with.path.empty() ? request.path : with.path;
  const std::string to_sign =
      v4_string_to_sign(claim, v4_canonical_request(request, claim, path, payload_hash));
  const HmacSha256 key =
      v4_signing_key(with.secret_key, with.timestamp.substr(0, 8), with.region, with.service);
  return hex_of(key.sign(as_bytes(to_sign)));
}

// Adds x-amz-date and Authorization. x-amz-content-sha256 must be there. Returns the signature.
inline std::string sign_header(S3Request& request, const SignWith& with = {}) {
  remove_header(request, "authorization");
  set_header(request, "x-amz-date", with.timestamp);
  const std::string names =
      with.signed_headers.empty() ? all_header_names(request) : with.signed_headers;
  const std::string scope =
      with.timestamp.substr(0, 8) + "/" + with.region + "/" + with.service + "/aws4_request";
  const std::string signature = signature_of(request, with, claim_of(with, scope, names),
                                             *request.header("x-amz-content-sha256"));
  request.headers.emplace_back("authorization", "AWS4-HMAC-SHA256 Credential=" + with.access_key +
                                                    "/" + scope + ", SignedHeaders=" + names +
                                                    ", Signature=" + signature);
  return signature;
}

// Adds the X-Amz-* parameters of a presigned URL.
inline void presign(S3Request& request, const SignWith& with = {},
                    std::string_view payload_hash = "UNSIGNED-PAYLOAD") {
  const std::string names = with.signed_headers.empty() ? "host" : with.signed_headers;
  const std::string scope =
      with.timestamp.substr(0, 8) + "/" + with.region + "/" + with.service + "/aws4_request";
  request.query.emplace_back("X-Amz-Algorithm", "AWS4-HMAC-SHA256");
  request.query.emplace_back("X-Amz-Credential", with.access_key + "/" + scope);
  request.query.emplace_back("X-Amz-Date", with.timestamp);
  request.query.emplace_back("X-Amz-Expires", with.expires);
  request.query.emplace_back("X-Amz-SignedHeaders", names);
  V4Claim claim = claim_of(with, scope, names);
  claim.in_query = true;
  request.query.emplace_back("X-Amz-Signature", signature_of(request, with, claim, payload_hash));
}

}  // namespace penstock::testing
