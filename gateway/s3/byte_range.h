// Ranges of bytes that requests ask for. Pure functions.
// Source: RFC 9110, section 14; S3 API Reference (GetObject, UploadPartCopy).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/s3/s3_error.h"

namespace penstock {

// Bytes [first, first + length) of an object.
struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t length = 0;
  bool operator==(const ByteRange&) const = default;
};

enum class RangeKind : std::uint8_t {
  whole,        // no range, or one that is not understood (several, another unit): serve all, 200
  part,         // serve `range`, 206
  unsatisfied,  // begins past the end: 416
};
struct RangeAnswer {
  RangeKind kind = RangeKind::whole;
  ByteRange range;
};
// The header `Range` against an object of `size` bytes: "bytes=a-b", "bytes=a-", "bytes=-n". An end
// past the object is cut; numbers past 2^64 count as 2^64-1.
RangeAnswer parse_range(std::string_view header, std::uint64_t size);
// x-amz-copy-source-range: "bytes=a-b" and nothing else.
// Errors: InvalidArgument - another form, or it passes the end of the source.
S3Result<ByteRange> parse_copy_range(std::string_view header, std::uint64_t size);
// 416 as clients need it: ActualObjectSize (zero included), RangeRequested, Content-Range.
S3Error range_not_satisfiable(std::string_view requested, std::uint64_t size);
// "bytes a-b/size". Pre: the range is not empty.
std::string content_range(ByteRange range, std::uint64_t size);

}  // namespace penstock
