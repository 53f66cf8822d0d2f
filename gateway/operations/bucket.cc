// Buckets as things of their own: list, create, head, delete, locate.
#include "gateway/operations/stored_bytes.h"
#include "gateway/s3/bucket_name.h"
#include "gateway/s3/http_date.h"
#include "gateway/s3/list_parameters.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/s3_xml_input.h"

namespace penstock {
namespace {

constexpr std::size_t kBucketPageMax = 10'000;  // as S3's ListBuckets
constexpr std::string_view kDefaultRegion = "us-east-1";

S3Result<> check_create_headers(const S3Request& request) {
  CHECK_OK(check_acl_headers(request));
  for (const auto& [name, value] : request.headers) {
    const bool lock = name == "x-amz-bucket-object-lock-enabled" && value != "false";
    const bool ownership = name == "x-amz-object-ownership" && value != "BucketOwnerEnforced";
    const bool namespaced = name == "x-amz-bucket-namespace" && value != "global";
    if (!lock && !ownership && !namespaced) continue;
    S3Error error = s3_error(S3Code::NotImplemented);
    error.details.emplace_back("Header", name);
    return error;
  }
  return {};
}

S3Result<> check_location(const std::string& location, const std::string& region) {
  if (location.empty() || location == region || location == kDefaultRegion) return {};
  S3Error error = s3_error(S3Code::InvalidLocationConstraint);
  error.details.emplace_back("LocationConstraint", location);
  return error;
}

struct BucketPage {
  std::string prefix, after, region;
  std::size_t most = kBucketPageMax;
};

S3Result<BucketPage> bucket_page(const S3Request& request) {
  BucketPage page;
  page.prefix = query_text(request, "prefix");
  page.region = query_text(request, "bucket-region");
  if (!query_text(request, "max-buckets").empty()) {
    TRY(most, page_size(request, "max-buckets", kBucketPageMax));
    if (most == 0) {
      return s3_error(S3Code::InvalidArgument,
                      "Argument max-buckets must be an integer between 1 and 10000");
    }
    page.most = most;
  }
  if (const std::string* token = request.query_value("continuation-token");
      token != nullptr && !token->empty()) {
    const auto start = decode_token(*token);
    if (!start) {
      return s3_error(S3Code::InvalidArgument, "The continuation token provided is incorrect");
    }
    page.after = start->after;
  }
  return page;
}

std::string buckets_xml(const S3Request& request, const BucketPage& page,
                        const std::vector<Bucket>& buckets) {
  XmlWriter xml(512 + 160 * std::min(buckets.size(), page.most));
  xml.open_root("ListAllMyBucketsResult");
  write_owner(xml, "Owner", request.principal.account_id, request.principal.display_name);
  xml.open("Buckets");
  std::size_t shown = 0;
  std::string last, token;
  for (const Bucket& bucket : buckets) {
    if (!bucket.name.starts_with(page.prefix) || bucket.name <= page.after) continue;
    if (!page.region.empty() && bucket.record.region != page.region) continue;
    if (shown == page.most) {
      token = encode_token({last, false});
      break;
    }
    xml.open("Bucket");
    xml.element("Name", bucket.name);
    xml.element("CreationDate", iso_date(bucket.record.created));
    xml.element("BucketRegion", bucket.record.region);
    xml.close("Bucket");
    last = bucket.name;
    ++shown;
  }
  xml.close("Buckets");
  if (!page.prefix.empty()) xml.element("Prefix", page.prefix);
  if (!token.empty()) xml.element("ContinuationToken", token);
  xml.close("ListAllMyBucketsResult");
  return xml.take();
}

}  // namespace

S3Task<S3Response> list_buckets(Gateway& gateway, const S3Request& request) {
  CO_TRY(page, bucket_page(request));
  CO_TRY(room, co_await take_list_room(gateway, request, 0));
  Index& index = gateway.index;
  S3_TRY(buckets, co_await index.list_buckets(request.principal.account_id, request.deadline),
         S3Code::NoSuchBucket);
  std::sort(buckets.begin(), buckets.end(),
            [](const Bucket& a, const Bucket& b) { return a.name < b.name; });
  S3Response response;
  response.set_xml(buckets_xml(request, page, buckets));
  co_return std::move(response);
}

S3Task<S3Response> create_bucket(Gateway& gateway, const S3Request& request, BodyReader& body) {
  if (!is_valid_bucket_name(request.bucket)) {
    S3Error error = s3_error(S3Code::InvalidBucketName);
    error.details.emplace_back("BucketName", request.bucket);
    co_return error;
  }
  CO_CHECK(check_create_headers(request));
  CO_TRY(document, co_await read_document(gateway, request, body));
  CO_TRY(wanted, parse_bucket_configuration(std::move(document.text)));
  if (wanted.has_other) co_return s3_error(S3Code::NotImplemented);
  CO_CHECK(check_location(wanted.location, gateway.config.region));
  Index& index = gateway.index;
  S3_TRY(created,
         co_await index.create_bucket(request.bucket, request.principal.account_id,
                                      gateway.config.region, request.deadline),
         S3Code::NoSuchBucket);
  if (created.existed) {
    if (created.bucket->record.owner != request.principal.account_id) {
      co_return s3_error(S3Code::BucketAlreadyExists);
    }
    // S3 lets an owner create a bucket again in its oldest region and nowhere else.
    if (created.bucket->record.region != kDefaultRegion) {
      co_return s3_error(S3Code::BucketAlreadyOwnedByYou);
    }
  }
  S3Response response;
  response.set("Location", "/" + request.bucket);
  co_return std::move(response);
}

S3Task<S3Response> head_bucket(Gateway& gateway, const S3Request& request) {
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  S3Response response;
  response.set("x-amz-bucket-region", bucket->record.region);
  response.set("Content-Type", "application/xml");
  co_return std::move(response);
}

S3Task<S3Response> delete_bucket(Gateway& gateway, const S3Request& request) {
  CO_TRY(bucket, co_await open_bucket_to_delete(gateway, request));
  Index& index = gateway.index;
  const auto deleted = co_await index.delete_bucket(request.bucket, request.deadline);
  if (!deleted && deleted.error().code == Errc::precondition) {
    S3Error error = s3_error(S3Code::BucketNotEmpty);
    error.details.emplace_back("BucketName", request.bucket);
    co_return error;
  }
  if (!deleted) co_return to_s3(deleted.error(), S3Code::NoSuchBucket);
  S3Response response;
  response.status = 204;
  co_return std::move(response);
}

S3Task<S3Response> get_bucket_location(Gateway& gateway, const S3Request& request) {
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  const std::string& region = bucket->record.region;
  XmlWriter xml;
  xml.open_root("LocationConstraint");
  if (region != kDefaultRegion) xml.text(region);  // the oldest region has no name here
  xml.close("LocationConstraint");
  S3Response response;
  response.set_xml(xml.take());
  co_return std::move(response);
}

}  // namespace penstock
