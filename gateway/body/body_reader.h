// The body of a request as an operation reads it: decoded, and verified by the time it ends.
#pragma once
#include <memory>

#include "gateway/auth/payload_auth.h"
#include "gateway/http/http_body.h"
#include "gateway/s3/request.h"
#include "gateway/s3/s3_error.h"
#include "penstock/md5_service.h"

namespace penstock {

// The reader for `request`'s body. `payload`, i.e. the signed x-amz-content-sha256, says how the
// body is framed. That header, Content-MD5 and x-amz-checksum-* (in a header or trailer) say what
// it must hash to.
//
// Each read() fills its buffer as far as the body goes, and has hashed what it returns: the buffer
// belongs to the caller again. What receive() returns may be hashed later. All that the client sent
// to check is verified at the end, by the read() that returns 0; without a Content-MD5 the MD5 may
// be known only after settle().
// `md5`: hashes large bodies; null: on the caller's thread. Errors: as body_promises(). Ownership:
// borrows `raw` and `md5`. Thread-safety: the connection's thread.
S3Result<std::unique_ptr<BodyReader>> make_body_reader(const S3Request& request,
                                                       PayloadAuth payload, RawBody& raw,
                                                       Md5Service* md5 = nullptr);

}  // namespace penstock
