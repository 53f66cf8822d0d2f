#include "gateway/bench/request_maker.h"

#include <array>
#include <cstdio>
#include <utility>

#include "gateway/s3/percent_encoding.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

constexpr std::size_t kAnswerBytesMax = 8 << 20;
constexpr std::string_view kTrailer = "x-amz-checksum-crc64nvme";

void add_header(LoadRequest& request, std::string_view name, std::string_view value) {
  request.head.append(name).append(": ").append(value).append("\r\n");
}

std::string part_query(const RequestMaker::Part& part) {
  return "partNumber=" + std::to_string(part.number) +
         "&uploadId=" + percent_encode(part.upload_id, false);
}

}  // namespace

void RequestMaker::begin(LoadRequest& request, std::string_view method, std::string_view key,
                         std::string_view query, std::string_view payload_hash,
                         SignedFields more) const {
  std::string path = root_;
  if (!key.empty()) path.append("/").append(percent_encode(key, true));
  const SignedHead head = signer_.sign(method, path, query, payload_hash, more);
  request.head.append(method).append(" ").append(head.target).append(" HTTP/1.1\r\n");
  request.head.append(head.headers);
  request.is_head = method == "HEAD";
}

void RequestMaker::read(LoadRequest& request, std::string_view method, const std::string& key,
                        std::uint64_t bytes, std::optional<Range> range) const {
  begin(request, method, key, {}, RequestSigner::kUnsigned);
  request.expected_at = content_.start_of(key);
  request.expected_bytes = bytes;
  if (range) {
    *request.expected_at += range->offset;
    request.expected_bytes = range->bytes;
    add_header(request, "Range",
               "bytes=" + std::to_string(range->offset) + "-" +
                   std::to_string(range->offset + range->bytes - 1));
  }
  request.head.append("\r\n");
}

// Ends the head.
void RequestMaker::add_content(LoadRequest& request, const std::string& key, Range range) const {
  request.content_at = content_.start_of(key) + range.offset;
  request.content_bytes = range.bytes;
  add_header(request, "Content-Length",
             std::to_string(request.before.size() + range.bytes + request.after.size()));
  request.head.append("\r\n");
}

void RequestMaker::put(LoadRequest& request, const std::string& key, std::uint64_t bytes) const {
  begin(request, "PUT", key, {}, RequestSigner::kUnsigned);
  add_content(request, key, {0, bytes});
}

void RequestMaker::remove(LoadRequest& request, const std::string& key) const {
  begin(request, "DELETE", key, {}, RequestSigner::kUnsigned);
  request.head.append("\r\n");
}

void RequestMaker::put_part(LoadRequest& request, const std::string& key, const Part& part) const {
  begin(request, "PUT", key, part_query(part), RequestSigner::kUnsigned);
  add_content(request, key, part.range);
}

void RequestMaker::put_signed_part(LoadRequest& request, const std::string& key, const Part& part,
                                   std::string_view sha256_hex) const {
  begin(request, "PUT", key, part_query(part), sha256_hex);
  add_content(request, key, part.range);
}

void RequestMaker::put_part_with_trailer(LoadRequest& request, const std::string& key,
                                         const Part& part, std::uint64_t crc64nvme) const {
  const std::string bytes = std::to_string(part.range.bytes);
  const std::array<std::pair<std::string_view, std::string_view>, 2> more{
      {{"x-amz-decoded-content-length", bytes}, {"x-amz-trailer", kTrailer}}};
  begin(request, "PUT", key, part_query(part), "STREAMING-UNSIGNED-PAYLOAD-TRAILER", more);
  std::array<char, 24> size{};
  std::snprintf(size.data(), size.size(), "%llx",
                static_cast<unsigned long long>(part.range.bytes));
  std::string big_endian;
  for (int shift = 56; shift >= 0; shift -= 8) {
    big_endian.push_back(static_cast<char>(crc64nvme >> shift));
  }
  request.before.append(size.data()).append("\r\n");
  request.after.append("\r\n0\r\n").append(kTrailer).append(":");
  request.after.append(base64_encode(big_endian)).append("\r\n\r\n");
  add_header(request, "Content-Encoding", "aws-chunked");
  add_content(request, key, part.range);
}

void RequestMaker::call(LoadRequest& request, std::string_view method, const std::string& key,
                        std::string_view query, std::string_view body) const {
  begin(request, method, key, query, RequestSigner::kUnsigned);
  if (!body.empty() || method == "PUT" || method == "POST") {
    add_header(request, "Content-Length", std::to_string(body.size()));
  }
  request.head.append("\r\n");
  request.before = body;
  request.keep_bytes = kAnswerBytesMax;
}

}  // namespace penstock
