// S3's error codes and the one place where ours become theirs. Source: S3 API Reference, "Error
// responses".
#pragma once
#include <boost/system/result.hpp>
#include <cstdint>
#include <iosfwd>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/result.h"

namespace penstock {

enum class S3Code : std::uint8_t {
  AccessDenied,
  AccessForbidden,
  AuthorizationHeaderMalformed,
  AuthorizationQueryParametersError,
  BadDigest,
  BadRequest,
  BucketAlreadyExists,
  BucketAlreadyOwnedByYou,
  BucketNotEmpty,
  ConditionalRequestConflict,
  EntityTooLarge,
  EntityTooSmall,
  ExpiredToken,
  IllegalLocationConstraintException,
  IncompleteBody,
  InternalError,
  InvalidAccessKeyId,
  InvalidArgument,
  InvalidBucketName,
  InvalidDigest,
  InvalidEncryptionAlgorithmError,
  InvalidLocationConstraint,
  InvalidPart,
  InvalidPartNumber,
  InvalidPartOrder,
  InvalidRange,
  InvalidRequest,
  InvalidStorageClass,
  InvalidTag,
  InvalidToken,
  InvalidURI,
  InvalidWriteOffset,
  KeyTooLongError,
  MalformedACLError,
  MalformedPOSTRequest,
  MalformedTrailerError,
  MalformedXML,
  MaxMessageLengthExceeded,
  MetadataTooLarge,
  MethodNotAllowed,
  MissingContentLength,
  MissingSecurityHeader,
  NoSuchBucket,
  NoSuchBucketPolicy,
  NoSuchCORSConfiguration,
  NoSuchKey,
  NoSuchLifecycleConfiguration,
  NoSuchPublicAccessBlockConfiguration,
  NoSuchTagSet,
  NoSuchUpload,
  NoSuchVersion,
  NoSuchWebsiteConfiguration,
  NotImplemented,
  ObjectLockConfigurationNotFoundError,
  OperationAborted,
  OwnershipControlsNotFoundError,
  PreconditionFailed,
  ReplicationConfigurationNotFoundError,
  RequestHeaderSectionTooLarge,
  RequestTimeTooSkewed,
  RequestTimeout,
  ServerSideEncryptionConfigurationNotFoundError,
  SignatureDoesNotMatch,
  SlowDown,
  InsufficientStorage,
  TooManyBuckets,
  XAmzContentSHA256Mismatch,
  NotModified,
};

struct S3Error {
  S3Code code = S3Code::InternalError;
  std::string message;  // S3's own wording where clients match on it; empty = the table's
  // Further elements, e.g. {"Condition", "If-Match"}.
  std::vector<std::pair<std::string, std::string>> details;
  // Further response headers, e.g. Content-Range on 416.
  std::vector<std::pair<std::string, std::string>> headers;
  std::string cause;   // what lies behind a 5xx: for the log, never for the client
  bool close = false;  // the connection cannot be used further (body not read, framing broken)
  // The cached bucket was deleted (and perhaps made anew): forget it; a request whose body is
  // unread may run again.
  bool stale_bucket = false;
};
[[noreturn]] void throw_exception_from_error(const S3Error& error,
                                             const boost::source_location& where);
template <class T = void>
class [[nodiscard]] S3Result : public boost::system::result<T, S3Error> {
 public:
  using boost::system::result<T, S3Error>::result;
};
std::ostream& print_result(std::ostream& out, const S3Error* error);  // for test messages
template <class T>
std::ostream& operator<<(std::ostream& out, const S3Result<T>& result) {
  if (result) return print_result(out, static_cast<const S3Error*>(nullptr));
  const S3Error error = result.error();
  return print_result(out, &error);
}
template <class T = void>
using S3Task = Awaitable<S3Result<T>>;

std::string_view code_name(S3Code code);
int http_status(S3Code code);
std::string_view error_message(const S3Error& error);  // its own, or the table's
S3Error s3_error(S3Code code, std::string message = {});
// 412 with the header that failed: "If-Match", "x-amz-copy-source-if-match" …
S3Error precondition_failed(std::string_view condition);
// Ours -> theirs; `not_found` is what an absent thing is called here (NoSuchKey, NoSuchBucket,
// NoSuchUpload). The context of an internal failure stays inside.
S3Error to_s3(const Error& error, S3Code not_found = S3Code::NoSuchKey);
// The XML body of an error answer. Of `resource` and the details, which mostly are the request's
// own text, it holds no more than limits::kErrorEchoBytesMax bytes together: the rest is cut.
std::string error_xml(const S3Error& error, std::string_view resource, std::string_view request_id,
                      std::string_view host_id);

}  // namespace penstock

// In operations: `S3_TRY(record, co_await objects.get(...), S3Code::NoSuchKey);` turns an Error
// into an S3Error and returns it.
#define PENSTOCK_S3_TRY_(tmp, var, expr, missing)              \
  auto tmp = (expr);                                           \
  if (!tmp) co_return ::penstock::to_s3(tmp.error(), missing); \
  auto var = std::move(tmp).value()
#define S3_TRY(var, expr, missing) \
  PENSTOCK_S3_TRY_(PENSTOCK_CAT(s3_try_, __LINE__), var, expr, missing)
#define S3_CHECK(expr, missing)                               \
  do {                                                        \
    if (auto checked_ = (expr); !checked_) {                  \
      co_return ::penstock::to_s3(checked_.error(), missing); \
    }                                                         \
  } while (false)
