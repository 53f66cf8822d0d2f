// What browsers send unsigned. OPTIONS, the preflight (CORS): no bucket has CORS rules, so each is
// refused, as S3 refuses it for a bucket without rules. POST of a form to a bucket: not served.
// Source: S3 API Reference, "OPTIONS object", "POST Object".
#include "gateway/operations/operations.h"

namespace penstock {

S3Error refuse_preflight(const S3Request& request) {
  const std::string* origin = request.header("origin");
  if (origin == nullptr || origin->empty()) {
    return s3_error(S3Code::BadRequest, "Insufficient information. Origin request header needed.");
  }
  const std::string* method = request.header("access-control-request-method");
  if (method == nullptr || method->empty()) {
    return s3_error(S3Code::BadRequest, "Invalid Access-Control-Request-Method: null");
  }
  S3Error error =
      s3_error(S3Code::AccessForbidden, "CORSResponse: CORS is not enabled for this bucket.");
  error.details.emplace_back("Method", *method);
  error.details.emplace_back("ResourceType", request.key.empty() ? "BUCKET" : "OBJECT");
  return error;
}

S3Error refuse_form() {
  return s3_error(S3Code::NotImplemented,
                  "Uploads by a POST of multipart/form-data are not served.");
}

}  // namespace penstock
