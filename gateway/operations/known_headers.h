// What a request asks for that its operation does not read. Nothing that would change the meaning
// of a request is passed over in silence: it is refused.
#pragma once
#include "gateway/operations/operations.h"

namespace penstock {

// An x-amz-* header must be one that S3's operations here know, or one of the few that ask for
// nothing; conditions and ranges must stand where the operation reads them. Which are passed over
// knowingly, gateway/README.md lists.
// Errors: NotImplemented, with the header's name.
S3Result<> check_known_headers(Operation operation, const S3Request& request);

}  // namespace penstock
