#include "gateway/s3/request.h"

namespace penstock {
namespace {

const std::string* find_value(const std::vector<std::pair<std::string, std::string>>& pairs,
                              std::string_view name) {
  for (const auto& [key, value] : pairs) {
    if (key == name) return &value;
  }
  return nullptr;
}

}  // namespace

const std::string* S3Request::header(std::string_view name) const {
  return find_value(headers, name);
}
const std::string* S3Request::query_value(std::string_view name) const {
  return find_value(query, name);
}

void S3Response::set_xml(std::string xml) {
  set("Content-Type", "application/xml");
  content_length = xml.size();
  body = std::move(xml);
}

}  // namespace penstock
