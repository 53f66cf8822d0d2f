// Arbitrary bytes as a request head, in arbitrary cuts, through scan, guard, parser and request;
// what follows as a chunked body. Whatever passes must have one reading.
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/http/chunked_framing.h"
#include "gateway/http/http_guard.h"
#include "gateway/http/http_head.h"
#include "gateway/http/http_response.h"
#include "gateway/request_head.h"

namespace {
using namespace penstock;

void require(bool claim) {
  if (!claim) std::abort();
}

// The scan finds the same end, or refuses, wherever the bytes are cut.
HeadScan::State scan(std::string_view bytes, std::size_t cut, std::size_t& head_bytes) {
  HeadScan in_two;
  HeadScan::State state = in_two.look_at(bytes.substr(0, cut));
  if (state == HeadScan::State::incomplete) state = in_two.look_at(bytes);
  HeadScan at_once;
  const HeadScan::State whole = at_once.look_at(bytes);
  require(state == whole);
  if (state == HeadScan::State::complete) require(in_two.head_bytes() == at_once.head_bytes());
  head_bytes = at_once.head_bytes();
  return state;
}

void check_passed_head(std::string_view head, const HttpHead& parsed) {
  // No lenient parser may see another line in it than we did.
  require(head.find('\0') == std::string_view::npos);
  for (std::size_t i = 0; i < head.size(); ++i) {
    if (head[i] == '\n') require(i > 0 && head[i - 1] == '\r');
    if (head[i] == '\r') require(i + 1 < head.size() && head[i + 1] == '\n');
  }
  require(!(parsed.framing.chunked && parsed.framing.content_length));
  require(parsed.target == "*" || parsed.target.starts_with('/'));
  std::size_t lengths = 0;
  std::size_t codings = 0;
  for (const HttpField& field : parsed.fields) {
    HttpHead one;
    one.fields = {field};
    lengths += one.field("content-length") ? 1 : 0;
    codings += one.field("transfer-encoding") ? 1 : 0;
  }
  require(lengths == (parsed.framing.content_length ? 1u : 0u));
  require(codings == (parsed.framing.chunked ? 1u : 0u));
}

void decode_chunked(std::string_view body) {
  ChunkedFraming framing;
  while (!body.empty() && !framing.finished()) {
    if (framing.payload_left() > 0) {
      const auto take = std::min<std::uint64_t>(framing.payload_left(), body.size());
      framing.take_payload(take);
      body.remove_prefix(take);
      continue;
    }
    const auto used = framing.feed(body);
    if (!used) return;
    body.remove_prefix(used.value());
  }
}

// Whatever a request brings and a response repeats, the response stays one response.
void answer_with(const S3Request& request) {
  S3Response response;
  for (const auto& [name, value] : request.query) response.set(name, value);
  response.set("x-amz-meta-key", request.key);
  std::string head;
  append_response_head(head, ResponseTerms{}, response);
  require(head.find("\r\n\r\n") == head.size() - 4);
  for (std::size_t i = 0; i < head.size(); ++i) {
    if (head[i] == '\n') require(head[i - 1] == '\r');
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  decode_chunked(bytes);
  std::size_t head_bytes = 0;
  if (scan(bytes, data[0] % size, head_bytes) != HeadScan::State::complete) return 0;
  const std::string_view head_text = bytes.substr(0, head_bytes);
  const HeadCheck check = check_head(head_text);
  HttpHead head;
  if (check.refusal || !parse_head(head_text, check.framing, head)) return 0;
  check_passed_head(head_text, head);
  if (head.framing.chunked) decode_chunked(bytes.substr(head_bytes));
  const auto request = make_s3_request(head, {"s3.local", "eu.s3.local"});
  if (request) answer_with(request.value());
  return 0;
}
