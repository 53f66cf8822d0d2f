// If-Match and its kin. Pure functions. Source: RFC 9110, section 13; S3 API Reference.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/s3/request.h"
#include "server/objects/objects.h"

namespace penstock {

// If-Match compares strongly: a weak ETag (W/"...") names nothing. If-None-Match does not.
enum class EtagMatch : std::uint8_t { strong, weak };
// True if `list` ("*" alone, or ETags with or without quotes, separated by commas) names `etag`.
// An empty list, and the ETag of no letters, name nothing.
bool etag_listed(std::string_view list, std::string_view etag, EtagMatch match);

// The condition of a write: If-Match and If-None-Match. A condition that is there is never dropped.
// Errors: NotImplemented - what is not served (dates, a list of ETags); PreconditionFailed - one
// that no object can meet: an empty ETag.
S3Result<Condition> write_condition(const S3Request& request);
// The ETag of one If-Match, as Condition wants it. Errors: PreconditionFailed, as above.
S3Result<std::string> wanted_etag(std::string_view value);
// The failure of a write's condition, or any other error of the update.
S3Error write_failure(const Error& error, const Condition& condition);

enum class ReadVerdict : std::uint8_t { serve, not_modified, failed };
struct ReadDecision {
  ReadVerdict verdict = ReadVerdict::serve;
  std::string_view header;  // that decided against serving
};
// The four conditions of a read; `prefix` is "" or "x-amz-copy-source-". A date that cannot be read
// is ignored, as RFC 9110 asks: of a copy, which writes, check_copy_conditions() has refused it.
ReadDecision check_read(const S3Request& request, std::string_view prefix, std::string_view etag,
                        WallTime modified);
// Errors: InvalidArgument - x-amz-copy-source-if-modified-since and its kin are no dates;
// PreconditionFailed - a condition of the source is an empty ETag.
S3Result<> check_copy_conditions(const S3Request& request);
// If-Range: whether a range may be served; true without that header.
bool range_still_valid(const S3Request& request, std::string_view etag, WallTime modified);

}  // namespace penstock
