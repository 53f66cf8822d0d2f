// Reads the XML documents that requests carry: well-formed XML 1.0. Bounded before it is parsed:
// bytes, elements, depth and attributes; no DTD, so no entities; UTF-8 only. Element names count
// without a namespace prefix, the order of children does not count, unknown elements are passed
// over as S3 does. Errors of all: MalformedXML.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/s3/s3_error.h"
#include "server/objects/multipart_complete.h"

namespace penstock {

// CreateBucketConfiguration.
struct BucketConfigurationInput {
  std::string location;    // LocationConstraint; empty if there is none
  bool has_other = false;  // any other element: what is not served
};
// `body` may be empty: then nothing is asked for.
S3Result<BucketConfigurationInput> parse_bucket_configuration(std::string body);

// Delete, of DeleteObjects: 1 … limits::kDeleteObjectsMax objects.
struct DeleteInput {
  struct Object {
    std::string key;
    std::optional<std::string> version_id;
    std::optional<std::string> etag;  // as written, quotes and all; empty is a condition, too
    bool other_condition = false;     // LastModifiedTime or Size
  };
  std::vector<Object> objects;
  bool quiet = false;
};
S3Result<DeleteInput> parse_delete(std::string body);

// CompleteMultipartUpload: 1 … limits::kPartsMax parts in the order given; ETags without quotes.
// Further errors: InvalidPart - a checksum is not base64 of the right length; InvalidRequest - two
// checksums of one part, or one of an algorithm that is not served; InvalidArgument - a number.
S3Result<std::vector<CompletePart>> parse_complete(std::string body);

// Without the quotes and blanks around an ETag.
std::string_view bare_etag(std::string_view etag);

}  // namespace penstock
