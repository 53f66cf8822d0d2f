// Requests for tests, without HTTP.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "gateway/s3/request.h"

namespace penstock {

using Pairs = std::vector<std::pair<std::string, std::string>>;

inline S3Request make_request(std::string method, std::string bucket, std::string key,
                              Pairs query = {}, Pairs headers = {}) {
  S3Request request;
  request.method = std::move(method);
  request.bucket = std::move(bucket);
  request.key = std::move(key);
  request.query = std::move(query);
  request.headers = std::move(headers);
  return request;
}
inline S3Request with_headers(Pairs headers) {
  return make_request("GET", "b", "k", {}, std::move(headers));
}
inline S3Request with_query(Pairs query) { return make_request("GET", "b", "", std::move(query)); }

// The code of a failure; InternalError stands for "none", which no table expects.
template <class T>
S3Code code_of(const S3Result<T>& result) {
  return result ? S3Code::InternalError : result.error().code;
}

}  // namespace penstock
