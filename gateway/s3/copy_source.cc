#include "gateway/s3/copy_source.h"

#include "gateway/s3/percent_encoding.h"
#include "gateway/s3/utf8.h"
#include "penstock/limits.h"

namespace penstock {

S3Result<CopySource> parse_copy_source(std::string_view header) {
  const auto bad = [](std::string message) {
    return s3_error(S3Code::InvalidArgument, std::move(message));
  };
  constexpr std::string_view kVersion = "?versionId=";
  if (const auto at = header.rfind(kVersion); at != std::string_view::npos) {
    const std::string_view version = header.substr(at + kVersion.size());
    if (version.empty()) return bad("Version id cannot be the empty string");
    if (version != "null") return s3_error(S3Code::NoSuchVersion);
    header = header.substr(0, at);
  }
  auto decoded = percent_decode(header);
  if (!decoded || !is_utf8(*decoded) || decoded->find('\0') != std::string::npos) {
    return bad("The copy source must be URL-encoded UTF-8");
  }
  std::string_view path = *decoded;
  if (path.starts_with("arn:")) return s3_error(S3Code::NotImplemented);
  if (path.starts_with('/')) path.remove_prefix(1);
  const auto slash = path.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == path.size()) {
    return bad("Copy Source must mention the source bucket and key: sourcebucket/sourcekey");
  }
  const std::string_view key = path.substr(slash + 1);
  if (key.size() > limits::kKeyBytesMax) return s3_error(S3Code::KeyTooLongError);
  return CopySource{std::string(path.substr(0, slash)), std::string(key)};
}

}  // namespace penstock
