#include "gateway/http/http_head.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>

#include "gateway/s3/http_text.h"
#include "penstock/limits.h"

namespace penstock {
namespace {
namespace http = boost::beast::http;
using BeastView = boost::beast::string_view;
using ErrorCode = boost::beast::error_code;

std::string_view to_std(BeastView text) { return {text.data(), text.size()}; }

// Beast's parser without Beast's containers: the fields stay where they are.
class HeadParser final : public http::basic_parser<true> {
 public:
  explicit HeadParser(HttpHead& head) : head_(head) {
    header_limit(static_cast<std::uint32_t>(limits::kHeaderBytesMax) + 1);
    body_limit(boost::none);  // bodies have limits of their own, per operation
    eager(false);
  }

 private:
  void on_request_impl(http::verb, BeastView method, BeastView target, int version,
                       ErrorCode&) override {
    head_.method = to_std(method);
    head_.target = to_std(target);
    head_.http_1_0 = version == 10;
  }
  void on_response_impl(int, BeastView, int, ErrorCode&) override {}
  void on_field_impl(http::field, BeastView name, BeastView value, ErrorCode&) override {
    head_.fields.push_back(HttpField{to_std(name), to_std(value)});
  }
  void on_header_impl(ErrorCode&) override {}
  void on_body_init_impl(boost::optional<std::uint64_t> const&, ErrorCode&) override {}
  std::size_t on_body_impl(BeastView body, ErrorCode&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, BeastView, ErrorCode&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, BeastView body, ErrorCode&) override {
    return body.size();
  }
  void on_finish_impl(ErrorCode&) override {}

  HttpHead& head_;
};

// "http://host:port/path?query" -> "/path?query". The guard has seen that it is well formed.
std::string_view origin_form(std::string_view target) {
  if (target.starts_with('/') || target == "*") return target;
  const std::size_t authority = target.find("//") + 2;
  const std::size_t path = target.find_first_of("/?", authority);
  return path == std::string_view::npos || target[path] == '?' ? std::string_view("/")
                                                               : target.substr(path);
}

bool same_framing(const HeadParser& parser, const HeadFraming& framing) {
  if (parser.chunked() != framing.chunked) return false;
  const auto length = parser.content_length();
  return framing.chunked || length.value_or(0) == framing.content_length.value_or(0);
}
}  // namespace

std::optional<std::string_view> HttpHead::field(std::string_view lower_name) const {
  for (const HttpField& candidate : fields) {
    if (http_text::equals_lower(candidate.name, lower_name)) return candidate.value;
  }
  return std::nullopt;
}

bool parse_head(std::string_view bytes, const HeadFraming& framing, HttpHead& head) {
  head.fields.clear();
  HeadParser parser(head);
  ErrorCode error;
  parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  if (error && error != http::error::need_more) return false;
  if (!parser.is_header_done() || !same_framing(parser, framing)) return false;
  head.keep_alive = parser.keep_alive();
  head.framing = framing;
  head.target = origin_form(head.target);
  return true;
}

}  // namespace penstock
