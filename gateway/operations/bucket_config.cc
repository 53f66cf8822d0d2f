// Reads of what cannot be configured here: the answers of a bucket on which nothing ever was. Each
// asks for the bucket (and the object) first, so that nobody learns of what is not theirs.
#include <array>

#include "gateway/operations/access.h"

namespace penstock {
namespace {

struct ConfigRow {
  std::string_view name;
  S3Code code;
};
constexpr std::array<ConfigRow, 11> kNotConfigured{{
    {"policy", S3Code::NoSuchBucketPolicy},
    {"policyStatus", S3Code::NoSuchBucketPolicy},
    {"cors", S3Code::NoSuchCORSConfiguration},
    {"website", S3Code::NoSuchWebsiteConfiguration},
    {"lifecycle", S3Code::NoSuchLifecycleConfiguration},
    {"replication", S3Code::ReplicationConfigurationNotFoundError},
    {"encryption", S3Code::ServerSideEncryptionConfigurationNotFoundError},
    {"object-lock", S3Code::ObjectLockConfigurationNotFoundError},
    {"tagging", S3Code::NoSuchTagSet},
    {"publicAccessBlock", S3Code::NoSuchPublicAccessBlockConfiguration},
    {"ownershipControls", S3Code::OwnershipControlsNotFoundError},
}};

// The owner may do everything, nobody else anything.
S3Response owner_acl(const S3Request& request, const std::string& owner) {
  XmlWriter xml;
  xml.open_root("AccessControlPolicy");
  write_owner(xml, "Owner", owner, request.principal.display_name);
  xml.open("AccessControlList");
  xml.open("Grant");
  xml.open(R"(Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" )"
           R"(xsi:type="CanonicalUser")");
  xml.element("ID", owner);
  xml.element("DisplayName", request.principal.display_name);
  xml.close("Grantee");
  xml.element("Permission", "FULL_CONTROL");
  xml.close("Grant");
  xml.close("AccessControlList");
  xml.close("AccessControlPolicy");
  S3Response response;
  response.set_xml(xml.take());
  return response;
}

S3Task<ObjectRead> open_object(Gateway& gateway, const S3Request& request) {
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  S3_TRY(object, co_await gateway.objects.get(*bucket, request.key, false, request.deadline),
         S3Code::NoSuchKey);
  co_return std::move(object);
}

}  // namespace

S3Task<S3Response> bucket_config_read(Gateway& gateway, const S3Request& request) {
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  for (const ConfigRow& row : kNotConfigured) {
    if (!request.has_query(row.name)) continue;
    S3Error error = s3_error(row.code);
    error.details.emplace_back("BucketName", bucket->name);
    co_return error;
  }
  co_return s3_error(S3Code::NotImplemented);
}

S3Task<S3Response> get_bucket_versioning(Gateway& gateway, const S3Request& request) {
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  XmlWriter xml;
  xml.open_root("VersioningConfiguration");  // empty: never versioned
  xml.close("VersioningConfiguration");
  S3Response response;
  response.set_xml(xml.take());
  co_return std::move(response);
}

S3Task<S3Response> get_bucket_acl(Gateway& gateway, const S3Request& request) {
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  co_return owner_acl(request, bucket->record.owner);
}

S3Task<S3Response> get_object_acl(Gateway& gateway, const S3Request& request) {
  CO_TRY(object, co_await open_object(gateway, request));
  co_return owner_acl(request, object.record.owner);
}

S3Task<S3Response> get_object_tagging(Gateway& gateway, const S3Request& request) {
  CO_TRY(object, co_await open_object(gateway, request));
  XmlWriter xml;
  xml.open_root("Tagging");
  xml.open("TagSet");
  xml.close("TagSet");
  xml.close("Tagging");
  S3Response response;
  response.set_xml(xml.take());
  co_return std::move(response);
}

}  // namespace penstock
