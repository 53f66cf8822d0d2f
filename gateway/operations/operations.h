// The table of contents: one declaration and contract per S3 operation. Source: Amazon S3 API
// Reference.
//
// Every operation gets an authenticated request, the shared services and, where it takes one, the
// body. It answers the response of success, or an S3Error that the caller turns into XML. All are
// HTTP-free: the simulator calls them as the server does.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/operations/damage_log.h"
#include "gateway/s3/request.h"
#include "penstock/buffer.h"
#include "penstock/limits.h"
#include "penstock/memory_budget.h"
#include "penstock/turns.h"
#include "server/blobs/blobs.h"
#include "server/index/index.h"
#include "server/objects/multipart.h"
#include "server/objects/objects.h"

namespace penstock {

struct GatewayConfig {
  std::string region = "us-east-1";
  std::vector<std::string> domains;  // virtual hosts: bucket.DOMAIN
  bool strict_region = false;
  std::uint64_t part_bytes_min = limits::kPartBytesMin;  // of a multipart object, but the last
};

// What operations share. Ownership: borrows all references.
struct Gateway {
  Index& index;
  Blobs& blobs;
  Objects& objects;
  Multipart& multipart;
  MemoryBudget& memory;  // of all requests
  BufferPool& buffers;
  Clock& clock;
  Random& random;
  GatewayConfig config;
  std::unique_ptr<Turns> lists = std::make_unique<Turns>(limits::kListsAtOnce);
  DamageLog damage{clock};
};

enum class Operation : std::uint8_t {
  ListBuckets,
  CreateBucket,
  HeadBucket,
  DeleteBucket,
  GetBucketLocation,
  GetBucketVersioning,
  ListObjects,
  ListObjectsV2,
  ListObjectVersions,
  ListMultipartUploads,
  DeleteObjects,
  PutObject,
  GetObject,
  HeadObject,
  DeleteObject,
  CopyObject,
  GetObjectAttributes,
  CreateMultipartUpload,
  UploadPart,
  UploadPartCopy,
  CompleteMultipartUpload,
  AbortMultipartUpload,
  ListParts,
  GetBucketAcl,
  GetObjectAcl,
  GetObjectTagging,
  BucketConfigRead,
  Preflight,
  PostObject,
  NotImplemented,
  MethodNotAllowed,
};
inline constexpr std::size_t kOperationCount =
    static_cast<std::size_t>(Operation::MethodNotAllowed) + 1;
std::string_view to_string(Operation operation);
// The operation that a request asks for, by method, path and sub-resources. An unknown sub-resource
// or header is NotImplemented and never a plain PUT or GET: a client that asked for something else
// would lose its object.
Operation route(const S3Request& request);

// Runs the operation of `request`. `body` is never null; empty for requests without one.
S3Task<S3Response> run_operation(Gateway& gateway, Operation operation, const S3Request& request,
                                 BodyReader& body);

// gateway/operations/bucket.cc
S3Task<S3Response> list_buckets(Gateway& gateway, const S3Request& request);
S3Task<S3Response> create_bucket(Gateway& gateway, const S3Request& request, BodyReader& body);
S3Task<S3Response> head_bucket(Gateway& gateway, const S3Request& request);
S3Task<S3Response> delete_bucket(Gateway& gateway, const S3Request& request);
S3Task<S3Response> get_bucket_location(Gateway& gateway, const S3Request& request);
// bucket_config.cc: canned answers for what no client can configure here
S3Task<S3Response> get_bucket_versioning(Gateway& gateway, const S3Request& request);
S3Task<S3Response> bucket_config_read(Gateway& gateway, const S3Request& request);
S3Task<S3Response> get_bucket_acl(Gateway& gateway, const S3Request& request);
S3Task<S3Response> get_object_acl(Gateway& gateway, const S3Request& request);
S3Task<S3Response> get_object_tagging(Gateway& gateway, const S3Request& request);
// preflight.cc: what a browser asks unsigned before it sends the request itself
S3Error refuse_preflight(const S3Request& request);
// and an upload by a form of HTML, which carries its signature in its fields
S3Error refuse_form();
// list_objects.cc
S3Task<S3Response> list_objects(Gateway& gateway, const S3Request& request);
S3Task<S3Response> list_objects_v2(Gateway& gateway, const S3Request& request);
S3Task<S3Response> list_object_versions(Gateway& gateway, const S3Request& request);
// put_object.cc, get_object.cc, copy_object.cc, delete_object.cc, object_attributes.cc
S3Task<S3Response> put_object(Gateway& gateway, const S3Request& request, BodyReader& body);
S3Task<S3Response> get_object(Gateway& gateway, const S3Request& request);  // and HeadObject
S3Task<S3Response> copy_object(Gateway& gateway, const S3Request& request);
S3Task<S3Response> delete_object(Gateway& gateway, const S3Request& request);
S3Task<S3Response> delete_objects(Gateway& gateway, const S3Request& request, BodyReader& body);
S3Task<S3Response> get_object_attributes(Gateway& gateway, const S3Request& request);
// multipart.cc, upload_part.cc, complete_multipart.cc, list_uploads.cc
S3Task<S3Response> create_multipart_upload(Gateway& gateway, const S3Request& request);
S3Task<S3Response> upload_part(Gateway& gateway, const S3Request& request, BodyReader& body);
S3Task<S3Response> upload_part_copy(Gateway& gateway, const S3Request& request);
S3Task<S3Response> complete_multipart_upload(Gateway& gateway, const S3Request& request,
                                             BodyReader& body);
S3Task<S3Response> abort_multipart_upload(Gateway& gateway, const S3Request& request);
S3Task<S3Response> list_parts(Gateway& gateway, const S3Request& request);
S3Task<S3Response> list_multipart_uploads(Gateway& gateway, const S3Request& request);

}  // namespace penstock
