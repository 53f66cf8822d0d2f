// Headers that stand in the query: links carry them there, since a client that follows a link sends
// no headers of its own. Source: S3 API Reference, "Authenticating requests: using query
// parameters"; boto3 and the other SDKs put every x-amz-* header of a request that they presign
// into its query.
#pragma once
#include "gateway/auth/authenticator.h"
#include "gateway/s3/request.h"

namespace penstock {

// Makes a header of every x-amz-* parameter that the signature of `request` covers, and of the
// content-type and content-md5 of a version 2 link; those of the signature itself stay what they
// are. Unsigned parameters count for nothing, and what is said twice must agree.
// Errors: InvalidArgument - a header contradicts it, or it could be no header; AccessDenied - a
// parameter that the signature does not cover.
S3Result<> take_query_headers(S3Request& request, SignedBy by);

}  // namespace penstock
