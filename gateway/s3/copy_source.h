// x-amz-copy-source: which object a copy reads. Pure functions.
#pragma once
#include <string>
#include <string_view>

#include "gateway/s3/s3_error.h"

namespace penstock {

struct CopySource {
  std::string bucket;
  std::string key;
};
// "bucket/key" or "/bucket/key", percent-encoded, decoded exactly once; "?versionId=null" may
// follow.
// Errors: InvalidArgument - no bucket, no key, bad encoding, no UTF-8; NoSuchVersion - another
// version; KeyTooLongError; NotImplemented - an access point.
S3Result<CopySource> parse_copy_source(std::string_view header);

}  // namespace penstock
