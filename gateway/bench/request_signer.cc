#include "gateway/bench/request_signer.h"

#include "gateway/auth/signature_v4.h"
#include "gateway/s3/percent_encoding.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

std::string hex_of(const Sha256Digest& digest) {
  return hex_encode(std::as_bytes(std::span(digest)));
}

}  // namespace

RequestSigner::RequestSigner(SignerOptions options, std::string host, WallTime now)
    : options_(std::move(options)), host_(std::move(host)), timestamp_(amz_date(now)) {
  const std::string_view day(timestamp_.data(), 8);
  scope_ = std::string(day) + "/" + options_.region + "/s3/aws4_request";
  key_ = v4_signing_key(options_.secret_key, day, options_.region, "s3");
}

std::string RequestSigner::signature_of(std::string_view canonical_request) const {
  std::string text(kV4Algorithm);
  text.append("\n").append(timestamp_.data(), timestamp_.size()).append("\n").append(scope_);
  text.append("\n").append(hex_of(sha256(as_bytes(canonical_request))));
  return hex_of(key_.sign(as_bytes(text)));
}

// Its own parameters begin with "X-": they stand before those of S3, which begin with small
// letters.
SignedHead RequestSigner::presign(std::string_view method, std::string_view path,
                                  std::string_view query) const {
  std::string all("X-Amz-Algorithm=");
  all.append(kV4Algorithm).append("&X-Amz-Credential=");
  all.append(percent_encode(options_.access_key + "/" + scope_, false)).append("&X-Amz-Date=");
  all.append(timestamp_.data(), timestamp_.size());
  all.append("&X-Amz-Expires=86400&X-Amz-SignedHeaders=host");
  if (!query.empty()) all.append("&").append(query);
  std::string canonical(method);
  canonical.append("\n").append(path).append("\n").append(all).append("\nhost:").append(host_);
  canonical.append("\n\nhost\n").append(kUnsigned);
  SignedHead head;
  head.target.append(path).append("?").append(all).append("&X-Amz-Signature=");
  head.target.append(signature_of(canonical));
  head.headers = "Host: " + host_ + "\r\n";
  return head;
}

SignedHead RequestSigner::sign(std::string_view method, std::string_view path,
                               std::string_view query, std::string_view payload_hash,
                               SignedFields more) const {
  if (!options_.nothing && !options_.in_header && payload_hash == kUnsigned) {
    return presign(method, path, query);
  }
  SignedHead head;
  head.target = path;
  if (!query.empty()) head.target.append("?").append(query);
  head.headers = "Host: " + host_ + "\r\n";
  for (const auto& [name, value] : more) {
    head.headers.append(name).append(": ").append(value).append("\r\n");
  }
  if (options_.nothing) return head;
  const std::string_view stamp(timestamp_.data(), timestamp_.size());
  std::string names = "host;x-amz-content-sha256;x-amz-date";
  std::string canonical(method);
  canonical.append("\n").append(path).append("\n").append(query).append("\nhost:").append(host_);
  canonical.append("\nx-amz-content-sha256:").append(payload_hash).append("\nx-amz-date:");
  canonical.append(stamp).append("\n");
  for (const auto& [name, value] : more) {
    names.append(";").append(name);
    canonical.append(name).append(":").append(value).append("\n");
  }
  canonical.append("\n").append(names).append("\n").append(payload_hash);
  head.headers.append("x-amz-content-sha256: ").append(payload_hash).append("\r\nx-amz-date: ");
  head.headers.append(stamp).append("\r\nAuthorization: ").append(kV4Algorithm);
  head.headers.append(" Credential=").append(options_.access_key).append("/").append(scope_);
  head.headers.append(", SignedHeaders=").append(names).append(", Signature=");
  head.headers.append(signature_of(canonical)).append("\r\n");
  return head;
}

}  // namespace penstock
