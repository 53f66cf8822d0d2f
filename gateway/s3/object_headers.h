// Headers that an object keeps, and headers that ask for what is not served. Pure functions.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "gateway/s3/request.h"

namespace penstock {

// Stored headers by lower-case name: Content-Type and its kin, user metadata as sent. The token
// "aws-chunked" is framing, not content, and is dropped from Content-Encoding.
// Errors: MetadataTooLarge; RequestHeaderSectionTooLarge - all headers together, stored or not:
// what is let in here fits the record of an object, and that of its upload.
using StoredHeaders = std::map<std::string, std::string>;
S3Result<StoredHeaders> stored_headers(const S3Request& request);
// Puts them on a response: user metadata in lower case, Content-Type with its default.
void set_stored_headers(S3Response& response, const StoredHeaders& headers);

// What a request that makes an object may not ask for, so that nothing is promised in silence.
// Errors: NotImplemented - encryption, tags, grants; InvalidRequest - object lock;
// InvalidStorageClass; InvalidArgument - an ACL of no known name.
S3Result<> check_object_write_headers(const S3Request& request);
// Errors: InvalidRequest - a customer's key for an object that has none.
S3Result<> check_object_read_headers(const S3Request& request);
// x-amz-acl: those that grant nothing beyond the owner are accepted.
// Errors: NotImplemented - it would grant more; InvalidArgument - no known name.
S3Result<> check_acl_headers(const S3Request& request);

// The value of Content-Encoding without "aws-chunked", wherever it stands.
std::string content_encoding(std::string_view value);

}  // namespace penstock
