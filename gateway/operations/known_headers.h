// Headers that the operation of a request does not read. One that would change the meaning of the
// request is never ignored: it is refused.
#pragma once
#include "gateway/operations/operations.h"

namespace penstock {

// An x-amz-* header must be one that S3's operations here know, or one of the few that ask for
// nothing; conditions and ranges must stand where the operation reads them. gateway/README.md lists
// the headers that are ignored on purpose.
// Errors: NotImplemented, with the header's name.
S3Result<> check_known_headers(Operation operation, const S3Request& request);

}  // namespace penstock
