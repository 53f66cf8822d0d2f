// From an HTTP head to the fields of an S3Request: which bucket, which key, which parameters. Pure.
//
// Paths are decoded exactly once and never normalised: "//", "." and ".." are bytes of keys, and
// keys never become file names. Source: S3 User Guide, "Virtual hosting of general purpose
// buckets".
#pragma once
#include <string>
#include <vector>

#include "gateway/http/http_head.h"
#include "gateway/s3/request.h"

namespace penstock {

// Fills method, path, bucket, key, query and headers. `domains`: hosts that buckets are sub-domains
// of, in lower case, without ports; every other host is path style.
//
// What is read here stands in the request once, so that nothing can be signed as one thing and read
// as another: repeats of user metadata and of headers that are lists by definition are joined with
// commas, as signatures cover them; every other repeat of a header that means something to S3, and
// of a query parameter, is refused. Headers that mean nothing here may repeat.
// Errors: InvalidURI - an escape without two hex digits, NUL, text that is no UTF-8, or a key
// without a bucket; InvalidArgument - a repeat.
S3Result<S3Request> make_s3_request(const HttpHead& head, const std::vector<std::string>& domains);

}  // namespace penstock
