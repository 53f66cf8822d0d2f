// The one door to all operations: what holds for each of them is checked here.
#include "gateway/operations/known_headers.h"
#include "gateway/operations/operations.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

S3Result<> check_key(const S3Request& request) {
  if (request.key.size() <= limits::kKeyBytesMax) return {};
  S3Error error = s3_error(S3Code::KeyTooLongError);
  error.details.emplace_back("Size", std::to_string(request.key.size()));
  error.details.emplace_back("MaxSizeAllowed", std::to_string(limits::kKeyBytesMax));
  return error;
}

// No bucket is versioned: the only version of an object is called "null".
S3Result<> check_version(const S3Request& request) {
  const std::string* version = request.query_value("versionId");
  if (version == nullptr || *version == "null") return {};
  if (!version->empty()) return s3_error(S3Code::NoSuchVersion);
  return s3_error(S3Code::InvalidArgument, "Version id cannot be the empty string");
}

S3Task<S3Response> refuse(S3Error error) { co_return error; }

S3Task<S3Response> dispatch(Gateway& gateway, Operation operation, const S3Request& request,
                            BodyReader& body) {
  switch (operation) {
    case Operation::ListBuckets:
      return list_buckets(gateway, request);
    case Operation::CreateBucket:
      return create_bucket(gateway, request, body);
    case Operation::HeadBucket:
      return head_bucket(gateway, request);
    case Operation::DeleteBucket:
      return delete_bucket(gateway, request);
    case Operation::GetBucketLocation:
      return get_bucket_location(gateway, request);
    case Operation::GetBucketVersioning:
      return get_bucket_versioning(gateway, request);
    case Operation::ListObjects:
      return list_objects(gateway, request);
    case Operation::ListObjectsV2:
      return list_objects_v2(gateway, request);
    case Operation::ListObjectVersions:
      return list_object_versions(gateway, request);
    case Operation::ListMultipartUploads:
      return list_multipart_uploads(gateway, request);
    case Operation::DeleteObjects:
      return delete_objects(gateway, request, body);
    case Operation::PutObject:
      return put_object(gateway, request, body);
    case Operation::GetObject:
    case Operation::HeadObject:
      return get_object(gateway, request);
    case Operation::DeleteObject:
      return delete_object(gateway, request);
    case Operation::CopyObject:
      return copy_object(gateway, request);
    case Operation::GetObjectAttributes:
      return get_object_attributes(gateway, request);
    case Operation::CreateMultipartUpload:
      return create_multipart_upload(gateway, request);
    case Operation::UploadPart:
      return upload_part(gateway, request, body);
    case Operation::UploadPartCopy:
      return upload_part_copy(gateway, request);
    case Operation::CompleteMultipartUpload:
      return complete_multipart_upload(gateway, request, body);
    case Operation::AbortMultipartUpload:
      return abort_multipart_upload(gateway, request);
    case Operation::ListParts:
      return list_parts(gateway, request);
    case Operation::GetBucketAcl:
      return get_bucket_acl(gateway, request);
    case Operation::GetObjectAcl:
      return get_object_acl(gateway, request);
    case Operation::GetObjectTagging:
      return get_object_tagging(gateway, request);
    case Operation::BucketConfigRead:
      return bucket_config_read(gateway, request);
    case Operation::Preflight:
      return refuse(refuse_preflight(request));
    case Operation::PostObject:
      return refuse(refuse_form());
    case Operation::MethodNotAllowed:
      return refuse(s3_error(S3Code::MethodNotAllowed));
    case Operation::NotImplemented:
      break;
  }
  return refuse(s3_error(S3Code::NotImplemented));
}

// What S3 tells beside the code, where the operation has not told it.
S3Error name_the_missing(S3Error error, const S3Request& request) {
  if (!error.details.empty()) return error;
  if (error.code == S3Code::NoSuchKey) error.details.emplace_back("Key", request.key);
  if (error.code == S3Code::NoSuchBucket) error.details.emplace_back("BucketName", request.bucket);
  if (error.code == S3Code::NoSuchUpload) {
    const std::string* id = request.query_value("uploadId");
    if (id != nullptr) error.details.emplace_back("UploadId", *id);
  }
  return error;
}

}  // namespace

S3Task<S3Response> run_operation(Gateway& gateway, Operation operation, const S3Request& request,
                                 BodyReader& body) {
  CO_CHECK(check_key(request));
  CO_CHECK(check_version(request));
  CO_CHECK(check_known_headers(operation, request));
  auto answer = co_await dispatch(gateway, operation, request, body);
  if (!answer && answer.error().stale_bucket) {
    // The cached bucket is gone, perhaps made anew. A body cannot be read twice: then the client
    // comes again after the 503 and meets the bucket that there is.
    gateway.index.forget_bucket(request.bucket);
    if (body.length() == 0) answer = co_await dispatch(gateway, operation, request, body);
  }
  if (!answer) co_return name_the_missing(std::move(answer).error(), request);
  co_return std::move(answer);
}

}  // namespace penstock
