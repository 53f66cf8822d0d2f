// What a request's headers promise of its body: length, Content-MD5, x-amz-checksum-*, in a header
// or a trailer.
//
// Pure functions of the request. Source: S3 User Guide, "Checking object integrity"; S3 API
// Reference, PutObject.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/auth/payload_auth.h"
#include "gateway/http/http_body.h"
#include "gateway/s3/request.h"
#include "gateway/s3/s3_error.h"
#include "penstock/checksum.h"
#include "penstock/md5.h"

namespace penstock {

struct BodyPromises {
  std::uint64_t payload_bytes = 0;
  std::optional<Md5Digest> content_md5;
  bool etag = false;  // an object or part: its MD5 will be asked for
  ChecksumAlgorithm checksum =
      ChecksumAlgorithm::none;  // named by a header or announced as a trailer
  std::string checksum_raw;     // of the header; empty: the trailer will tell
  bool in_trailer = false;
};

// Errors: MissingContentLength; InvalidDigest - Content-MD5 is no MD5; InvalidArgument - a length
// is no number; InvalidRequest - a checksum that is malformed, not served, given twice, or named
// but not given.
S3Result<BodyPromises> body_promises(const S3Request& request, PayloadMode mode,
                                     const RawBody& raw);
// The raw value of a checksum's base64 text. Errors: InvalidRequest - no value of this algorithm.
S3Result<std::string> parse_checksum(ChecksumAlgorithm algorithm, std::string_view text);

}  // namespace penstock
