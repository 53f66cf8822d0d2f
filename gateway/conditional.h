// If-Match and its kin. Pure functions. Source: RFC 9110, section 13; S3 API Reference.
#pragma once
#include <string_view>

#include "gateway/request.h"
#include "server/cluster/objects.h"

namespace penstock {

// True if `list` ("*", or ETags with or without quotes, separated by commas) names `etag`.
bool etag_listed(std::string_view list, std::string_view etag);

// The condition of a write: If-Match and If-None-Match. Errors: NotImplemented - a condition that
// would otherwise be passed over in silence (dates, a list of ETags).
S3Result<Condition> write_condition(const S3Request& request);
// The failure of a write's condition, or any other error of the update.
S3Error write_failure(const Error& error, const Condition& condition);

enum class ReadVerdict : std::uint8_t { serve, not_modified, failed };
struct ReadDecision {
  ReadVerdict verdict = ReadVerdict::serve;
  std::string_view header;  // that decided against serving
};
// The four conditions of a read; `prefix` is "" or "x-amz-copy-source-". A date that cannot be read
// is ignored, as RFC 9110 asks.
ReadDecision check_read(const S3Request& request, std::string_view prefix, std::string_view etag,
                        WallTime modified);
// If-Range: whether a range may be served; true without that header.
bool range_still_valid(const S3Request& request, std::string_view etag, WallTime modified);

}  // namespace penstock
