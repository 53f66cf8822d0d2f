#include "gateway/http/http_guard.h"

#include <cstring>

#include "gateway/s3/http_text.h"
#include "penstock/limits.h"

namespace penstock {
namespace {
constexpr std::size_t kLengthDigitsMax = 18;  // below 2^63, with no overflow on the way
constexpr std::string_view kLineEnd = "\r\n";

// What has been seen so far, to refuse the second of a kind.
struct Seen {
  std::size_t fields = 0;
  std::optional<std::string_view> host;
  bool length = false;
  bool transfer_encoding = false;
  bool expect = false;
};

HeadCheck reject(std::string_view reason, S3Code code = S3Code::InvalidRequest) {
  HeadCheck check;
  check.refusal = code;
  check.reason = reason;
  return check;
}

bool is_host_char(char c) {
  return http_text::is_digit(c) || (http_text::lower(c) >= 'a' && http_text::lower(c) <= 'z') ||
         c == '.' || c == '-' || c == '_' || c == ':' || c == '[' || c == ']';
}
bool is_host(std::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), is_host_char);
}

bool is_target_char(char c) { return c > 0x20 && c < 0x7f && c != '#'; }

// The authority of an absolute-form target; empty for origin form, nullopt if the target is
// neither.
std::optional<std::string_view> authority_of(std::string_view method, std::string_view target) {
  if (target.starts_with('/')) return std::string_view();
  if (target == "*" && method == "OPTIONS") return std::string_view();
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!http_text::equals_lower(target.substr(0, scheme.size()), scheme)) continue;
    const std::string_view rest = target.substr(scheme.size());
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
    if (is_host(authority)) return authority;
  }
  return std::nullopt;
}

struct RequestLine {
  std::string_view fault;  // empty: fine
  std::string_view authority;
  bool http_1_0 = false;
};
RequestLine check_request_line(std::string_view line) {
  RequestLine result;
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    result.fault = "The request line is malformed.";
    return result;
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  result.http_1_0 = version == "HTTP/1.0";
  const bool target_fine = !target.empty() && std::all_of(target.begin(), target.end(),
                                                          [](char c) { return is_target_char(c); });
  const auto authority = target_fine ? authority_of(method, target) : std::nullopt;
  if (!http_text::is_token(method)) {
    result.fault = "The method is malformed.";
  } else if (!authority) {
    result.fault = "The request target is malformed.";
  } else if (!result.http_1_0 && version != "HTTP/1.1") {
    result.fault = "The HTTP version is not supported.";
  } else {
    result.authority = *authority;
  }
  return result;
}

std::optional<std::uint64_t> parse_length(std::string_view digits) {
  if (digits.empty() || digits.size() > kLengthDigitsMax) return std::nullopt;
  std::uint64_t number = 0;
  for (const char c : digits) {
    if (!http_text::is_digit(c)) return std::nullopt;
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

// Fields that decide where this message ends and which host it is for. `raw` has its blanks still
// around it.
std::string_view check_special(std::string_view name, std::string_view raw, Seen& seen,
                               HeadFraming& framing) {
  if (http_text::equals_lower(name, "content-length")) {
    framing.content_length = parse_length(http_text::trim(raw, " "));
    if (seen.length) return "There is more than one Content-Length.";
    if (!framing.content_length) return "Content-Length is not a number.";
    seen.length = true;
  } else if (http_text::equals_lower(name, "transfer-encoding")) {
    if (seen.transfer_encoding) return "There is more than one Transfer-Encoding.";
    if (!http_text::equals_lower(http_text::trim(raw, " "), "chunked")) {
      return "The only Transfer-Encoding supported is chunked.";
    }
    seen.transfer_encoding = true;
    framing.chunked = true;
  } else if (http_text::equals_lower(name, "host")) {
    if (seen.host) return "There is more than one Host.";
    seen.host = http_text::trim(raw, " \t");
    if (!is_host(*seen.host)) return "Host is malformed.";
  } else if (http_text::equals_lower(name, "expect")) {
    if (seen.expect) return "There is more than one Expect.";
    seen.expect = true;
    if (!http_text::equals_lower(http_text::trim(raw, " \t"), "100-continue")) {
      return "The only expectation supported is 100-continue.";
    }
    framing.expects_continue = true;
  }
  return {};
}

std::string_view check_field(std::string_view line, Seen& seen, HeadFraming& framing) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !http_text::is_token(line.substr(0, colon))) {
    return "A header's name is malformed.";  // also a folded line and a blank before the colon
  }
  const std::string_view raw = line.substr(colon + 1);
  if (!http_text::is_field_value(raw)) return "A header's value holds a control character.";
  return check_special(line.substr(0, colon), raw, seen, framing);
}

std::string_view check_whole(const RequestLine& request, const Seen& seen) {
  if (seen.length && seen.transfer_encoding) {
    return "Content-Length and Transfer-Encoding exclude each other.";
  }
  if (request.http_1_0 && seen.transfer_encoding) return "HTTP/1.0 has no Transfer-Encoding.";
  if (!request.http_1_0 && !seen.host) return "Host is missing.";
  if (!request.authority.empty() && seen.host &&
      !http_text::equals_ignoring_case(request.authority, *seen.host)) {
    return "The request target and Host name different hosts.";
  }
  return {};
}
}  // namespace

HeadScan::State HeadScan::look_at(std::string_view bytes) {
  if (!bytes.empty() && !http_text::is_token_char(bytes.front())) return State::malformed;
  while (scanned_ < bytes.size()) {
    const std::size_t line_feed = bytes.find('\n', scanned_);
    if (line_feed == std::string_view::npos) {
      scanned_ = bytes.size();
      return State::incomplete;
    }
    if (line_feed == line_start_ || bytes[line_feed - 1] != '\r') return State::malformed;
    const bool empty_line = line_feed - line_start_ == 1;
    scanned_ = line_start_ = line_feed + 1;
    if (empty_line) {
      head_bytes_ = scanned_;
      return State::complete;
    }
  }
  return State::incomplete;
}

HeadCheck check_head(std::string_view head) {
  std::size_t end = head.find(kLineEnd);
  if (end == std::string_view::npos) return reject("The request line is malformed.");
  const RequestLine request = check_request_line(head.substr(0, end));
  if (!request.fault.empty()) return reject(request.fault);

  Seen seen;
  HeadCheck check;
  while (true) {
    const std::size_t start = end + kLineEnd.size();
    end = head.find(kLineEnd, start);
    if (end == std::string_view::npos) return reject("The head has no end.");
    if (end == start) break;
    if (++seen.fields > limits::kHeaderFieldsMax) {
      return reject("Too many headers.", S3Code::RequestHeaderSectionTooLarge);
    }
    const std::string_view fault =
        check_field(head.substr(start, end - start), seen, check.framing);
    if (!fault.empty()) return reject(fault);
  }
  if (end + kLineEnd.size() != head.size()) return reject("The head ends too early.");
  if (const std::string_view fault = check_whole(request, seen); !fault.empty()) {
    return reject(fault);
  }
  if (request.http_1_0) check.framing.expects_continue = false;  // RFC 9110 10.1.1: ignored there
  return check;
}

}  // namespace penstock
