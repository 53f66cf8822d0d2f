#include "gateway/s3/s3_error.h"

#include <cstdio>
#include <cstdlib>
#include <ostream>

#include "gateway/s3/s3_xml.h"
#include "gateway/s3/utf8.h"
#include "penstock/limits.h"
#include "penstock/log.h"

namespace penstock {
namespace {

constexpr std::size_t kMessageBytesMax = 1024;  // some tell what the client sent, too

struct Row {
  S3Code code;
  std::string_view name;
  int status;
  std::string_view message;  // S3's wording: some clients match on it
};

#define ROW(code, status, message) \
  Row { S3Code::code, #code, status, message }
constexpr Row kRows[] = {
    ROW(AccessDenied, 403, "Access Denied"),
    ROW(AccessForbidden, 403, "CORSResponse: This CORS request is not allowed."),
    ROW(AuthorizationHeaderMalformed, 400, "The authorization header is malformed"),
    ROW(AuthorizationQueryParametersError, 400, "The authorization query parameters are malformed"),
    ROW(BadDigest, 400,
        "The Content-MD5 or checksum value that you specified did not match what "
        "the server received"),
    ROW(BadRequest, 400, "Bad Request"),
    ROW(BucketAlreadyExists, 409,
        "The requested bucket name is not available. The bucket "
        "namespace is shared by all users of the system. Please select a "
        "different name and try again"),
    ROW(BucketAlreadyOwnedByYou, 409,
        "Your previous request to create the named bucket succeeded "
        "and you already own it"),
    ROW(BucketNotEmpty, 409, "The bucket you tried to delete is not empty"),
    ROW(ConditionalRequestConflict, 409,
        "The conditional request cannot succeed due to a "
        "conflicting operation against this resource"),
    ROW(EntityTooLarge, 400, "Your proposed upload exceeds the maximum allowed size"),
    ROW(EntityTooSmall, 400, "Your proposed upload is smaller than the minimum allowed size"),
    ROW(ExpiredToken, 400, "The provided token has expired"),
    ROW(IllegalLocationConstraintException, 400,
        "The location constraint is incompatible for the "
        "region specific endpoint this request was sent "
        "to"),
    ROW(IncompleteBody, 400,
        "You did not provide the number of bytes specified by the "
        "Content-Length HTTP header"),
    ROW(InternalError, 500, "We encountered an internal error. Please try again."),
    ROW(InvalidAccessKeyId, 403,
        "The AWS Access Key Id you provided does not exist in our "
        "records"),
    ROW(InvalidArgument, 400, "Invalid Argument"),
    ROW(InvalidBucketName, 400, "The specified bucket is not valid."),
    ROW(InvalidDigest, 400, "The Content-MD5 you specified is not valid."),
    ROW(InvalidEncryptionAlgorithmError, 400,
        "The encryption request you specified is not valid. "
        "The valid value is AES256."),
    ROW(InvalidLocationConstraint, 400, "The specified location-constraint is not valid"),
    ROW(InvalidPart, 400,
        "One or more of the specified parts could not be found. The part might "
        "not have been uploaded, or the specified entity tag might not have "
        "matched the part's entity tag."),
    ROW(InvalidPartNumber, 416, "The requested partnumber is not satisfiable"),
    ROW(InvalidPartOrder, 400,
        "The list of parts was not in ascending order. Parts must be "
        "ordered by part number."),
    ROW(InvalidRange, 416, "The requested range is not satisfiable"),
    ROW(InvalidRequest, 400, "Invalid Request"),
    ROW(InvalidStorageClass, 400, "The storage class you specified is not valid"),
    ROW(InvalidTag, 400, "The tag provided was not a valid tag"),
    ROW(InvalidToken, 400, "The provided token is malformed or otherwise invalid."),
    ROW(InvalidURI, 400, "Couldn't parse the specified URI."),
    ROW(InvalidWriteOffset, 400,
        "The write offset value that you specified does not match the "
        "current object size."),
    ROW(KeyTooLongError, 400, "Your key is too long"),
    ROW(MalformedACLError, 400,
        "The XML you provided was not well-formed or did not validate "
        "against our published schema"),
    ROW(MalformedPOSTRequest, 400,
        "The body of your POST request is not well-formed "
        "multipart/form-data."),
    ROW(MalformedTrailerError, 400,
        "The request contained trailing data that was not well-formed "
        "or did not conform to our published schema."),
    ROW(MalformedXML, 400,
        "The XML you provided was not well-formed or did not validate against "
        "our published schema"),
    ROW(MaxMessageLengthExceeded, 400, "Your request was too big."),
    ROW(MetadataTooLarge, 400, "Your metadata headers exceed the maximum allowed metadata size"),
    ROW(MethodNotAllowed, 405, "The specified method is not allowed against this resource."),
    ROW(MissingContentLength, 411, "You must provide the Content-Length HTTP header."),
    ROW(MissingSecurityHeader, 400, "Your request was missing a required header"),
    ROW(NoSuchBucket, 404, "The specified bucket does not exist"),
    ROW(NoSuchBucketPolicy, 404, "The bucket policy does not exist"),
    ROW(NoSuchCORSConfiguration, 404, "The CORS configuration does not exist"),
    ROW(NoSuchKey, 404, "The specified key does not exist."),
    ROW(NoSuchLifecycleConfiguration, 404, "The lifecycle configuration does not exist"),
    ROW(NoSuchPublicAccessBlockConfiguration, 404,
        "The public access block configuration was not found"),
    ROW(NoSuchTagSet, 404, "The TagSet does not exist"),
    ROW(NoSuchUpload, 404,
        "The specified upload does not exist. The upload ID may be invalid, or "
        "the upload may have been aborted or completed."),
    ROW(NoSuchVersion, 404, "The specified version does not exist."),
    ROW(NoSuchWebsiteConfiguration, 404,
        "The specified bucket does not have a website "
        "configuration"),
    ROW(NotImplemented, 501,
        "A header or query you provided requested a function that is not "
        "implemented."),
    ROW(ObjectLockConfigurationNotFoundError, 404,
        "Object Lock configuration does not exist for this bucket"),
    ROW(OperationAborted, 409,
        "A conflicting conditional operation is currently in progress "
        "against this resource. Please try again."),
    ROW(OwnershipControlsNotFoundError, 404, "The bucket ownership controls were not found"),
    ROW(PreconditionFailed, 412, "At least one of the pre-conditions you specified did not hold"),
    ROW(ReplicationConfigurationNotFoundError, 404, "The replication configuration was not found"),
    ROW(RequestHeaderSectionTooLarge, 400,
        "Your request header section exceeds the maximum "
        "allowed size."),
    ROW(RequestTimeTooSkewed, 403,
        "The difference between the request time and the current time "
        "is too large."),
    ROW(RequestTimeout, 400,
        "Your socket connection to the server was not read from or written "
        "to within the timeout period. Idle connections will be closed."),
    ROW(ServerSideEncryptionConfigurationNotFoundError, 404,
        "The server side encryption configuration was not found"),
    ROW(SignatureDoesNotMatch, 403,
        "The request signature we calculated does not match the "
        "signature you provided. Check your key and signing method."),
    ROW(SlowDown, 503, "Please reduce your request rate."),
    ROW(InsufficientStorage, 507, "All volumes are full."),
    ROW(TooManyBuckets, 400, "You have attempted to create more buckets than allowed"),
    ROW(XAmzContentSHA256Mismatch, 400,
        "The provided 'x-amz-content-sha256' header does not match "
        "what was computed."),
    ROW(NotModified, 304, "Not Modified"),
};
#undef ROW

consteval bool has_a_row_per_code() {
  std::size_t code = 0;
  for (const Row& row : kRows) {
    if (static_cast<std::size_t>(row.code) != code++) return false;
  }
  return code == static_cast<std::size_t>(S3Code::NotModified) + 1;
}
static_assert(has_a_row_per_code(), "rows stand in the order of S3Code");

const Row& row(S3Code code) { return kRows[static_cast<std::size_t>(code)]; }

}  // namespace

std::string_view code_name(S3Code code) { return row(code).name; }
int http_status(S3Code code) { return row(code).status; }
std::string_view error_message(const S3Error& error) {
  return error.message.empty() ? row(error.code).message : std::string_view(error.message);
}

S3Error s3_error(S3Code code, std::string message) {
  S3Error error;
  error.code = code;
  error.message = std::move(message);
  return error;
}

S3Error precondition_failed(std::string_view condition) {
  S3Error error = s3_error(S3Code::PreconditionFailed);
  error.details.emplace_back("Condition", std::string(condition));
  return error;
}

namespace {

S3Error what_clients_see(Errc code, S3Code not_found) {
  switch (code) {
    case Errc::not_found:
      return s3_error(not_found);
    case Errc::precondition:
      return s3_error(S3Code::PreconditionFailed);
    case Errc::invalid:
      return s3_error(S3Code::InvalidRequest);
    case Errc::full:
      return s3_error(S3Code::InsufficientStorage);
    case Errc::upload_not_open:
    case Errc::upload_missing:
      return s3_error(S3Code::NoSuchUpload);
    case Errc::corrupt:
    case Errc::io:
      return s3_error(S3Code::InternalError);
    case Errc::stale_bucket: {
      S3Error stale = s3_error(S3Code::SlowDown);
      stale.stale_bucket = true;
      return stale;
    }
    case Errc::aborted: {  // the client went away: nobody may read this
      S3Error gone = s3_error(S3Code::RequestTimeout);
      gone.close = true;
      return gone;
    }
    // Known not to be done, or an outcome that cannot be told: clients retry a 503 and nothing
    // else.
    case Errc::unavailable:
    case Errc::timeout:
    case Errc::refused:
    case Errc::stale_epoch:
    case Errc::epoch_behind:
    case Errc::overloaded:
    case Errc::unknown_outcome:
    case Errc::busy:
    case Errc::shutting_down:
      return s3_error(S3Code::SlowDown);
  }
  return s3_error(S3Code::InternalError);
}

}  // namespace

S3Error to_s3(const Error& error, S3Code not_found) {
  S3Error told = what_clients_see(error.code, not_found);
  if (http_status(told.code) >= http_status(S3Code::InternalError)) told.cause = error.context;
  return told;
}

namespace {

// As much of the front of `text` as has at most `room` bytes once it is escaped; takes it off.
std::string escaped_front(std::string_view text, std::size_t& room) {
  text = utf8_front(text, room);
  std::string escaped;
  append_escaped(escaped, text);
  while (escaped.size() > room) {
    // Every byte makes at least one, and the longest escape has six.
    constexpr std::size_t kEscapeMax = 6;
    const std::size_t over = (escaped.size() - room + kEscapeMax - 1) / kEscapeMax;
    text = utf8_front(text, text.size() - over);
    escaped.clear();
    append_escaped(escaped, text);
  }
  room -= escaped.size();
  return escaped;
}

}  // namespace

std::string error_xml(const S3Error& error, std::string_view resource, std::string_view request_id,
                      std::string_view host_id) {
  std::size_t room = limits::kErrorEchoBytesMax;
  const std::string resource_text = escaped_front(resource, room);
  XmlWriter xml(1024);
  xml.open("Error");
  xml.element("Code", code_name(error.code));
  xml.element("Message", utf8_front(error_message(error), kMessageBytesMax));
  for (const auto& [name, value] : error.details) xml.escaped(name, escaped_front(value, room));
  xml.escaped("Resource", resource_text);
  xml.element("RequestId", request_id);
  xml.element("HostId", host_id);
  xml.close("Error");
  return xml.take();
}

void throw_exception_from_error(const S3Error& error, const boost::source_location& where) {
  flush_log();  // what came before
  std::fprintf(stderr, "%s:%u: value of an S3 error taken: %s\n", where.file_name(),
               static_cast<unsigned>(where.line()), std::string(code_name(error.code)).c_str());
  std::abort();
}

std::ostream& print_result(std::ostream& out, const S3Error* error) {
  if (error == nullptr) return out << "ok";
  return out << code_name(error->code) << ": " << error->message;
}

}  // namespace penstock
