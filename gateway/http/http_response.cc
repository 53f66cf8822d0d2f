#include "gateway/http/http_response.h"

#include <charconv>

#include "gateway/s3/http_text.h"

namespace penstock {
namespace {
std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 416:
      return "Range Not Satisfiable";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 507:
      return "Insufficient Storage";
    default:
      return "Other";
  }
}

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  const std::size_t start = out.size();
  out.append(value).append("\r\n");
  if (http_text::is_field_value(value)) return;
  for (std::size_t i = start; i < start + value.size(); ++i) {
    if (http_text::is_control(out[i]) && out[i] != '\t') out[i] = ' ';
  }
}

void append_persistence(std::string& out, ResponseTerms::Persistence persistence) {
  switch (persistence) {
    case ResponseTerms::Persistence::implied:
      return;
    case ResponseTerms::Persistence::close:
      out.append("Connection: close\r\n");
      return;
    case ResponseTerms::Persistence::keep_alive:
      out.append("Connection: keep-alive\r\n");
      return;
  }
}
}  // namespace

bool has_body(int status) { return status >= 200 && status != 204 && status != 304; }

void append_response_head(std::string& out, const ResponseTerms& terms,
                          const S3Response& response) {
  out.append("HTTP/1.1 ");
  append_number(out, static_cast<std::uint64_t>(response.status));
  out.append(" ").append(reason_phrase(response.status)).append("\r\nDate: ").append(terms.date);
  out.append("\r\nServer: Penstock\r\nx-amz-request-id: ").append(terms.request_id);
  out.append("\r\nx-amz-id-2: ").append(terms.host_id).append("\r\n");
  append_persistence(out, terms.persistence);
  for (const auto& [name, value] : response.headers) {
    if (http_text::is_token(name)) append_field(out, name, value);
  }
  if (has_body(response.status)) {
    out.append("Content-Length: ");
    append_number(out, response.content_length);
    out.append("\r\n");
  }
  out.append("\r\n");
}

Task<> ResponseSender::send(ResponseTerms terms, S3Response response) {
  head_.clear();
  if (terms.head_only || !has_body(response.status) || response.content_length == 0) {
    append_response_head(head_, terms, response);
    started_ = true;
    co_return co_await stream_.send(as_bytes(head_), ConstBytes());
  }
  if (std::holds_alternative<std::unique_ptr<BodySource>>(response.body)) {
    co_return co_await send_stream(terms, std::move(response));
  }
  const auto* text = std::get_if<std::string>(&response.body);
  if (text == nullptr || text->size() != response.content_length) {
    co_return fail(Errc::invalid, "response: the body is not as long as announced");
  }
  append_response_head(head_, terms, response);
  started_ = true;
  auto sent = co_await stream_.send(as_bytes(head_), as_bytes(*text));
  if (sent) body_bytes_sent_ = text->size();
  co_return sent;
}

Task<> ResponseSender::send_stream(ResponseTerms terms, S3Response response) {
  BodySource& source = *std::get<std::unique_ptr<BodySource>>(response.body);
  ConstBytes head;
  while (body_bytes_sent_ < response.content_length) {
    // The first piece comes before the head, so that its failure can still be told by an error
    // answer.
    CO_TRY(piece, co_await source.next());
    const std::size_t length = piece.length;
    if (length == 0 || length > response.content_length - body_bytes_sent_) {
      co_return fail(Errc::invalid, "response: the body is not as long as announced");
    }
    if (!started_) {
      append_response_head(head_, terms, response);
      head = as_bytes(head_);
      started_ = true;
    }
    CO_TRY(sent, co_await send_piece(head, std::move(piece)));
    const std::size_t of_head = std::min(sent, head.size());
    const std::size_t of_piece = sent - of_head;
    head = head.subspan(of_head);
    body_bytes_sent_ += of_piece;
    if (of_piece == length) continue;
    source.put_back(length - of_piece);
    CO_CHECK(co_await wait_for_reader(source));
  }
  co_return Result<>{};
}

Task<std::size_t> ResponseSender::send_piece(ConstBytes head, Piece piece) {
  // Only the head may wait in the kernel: a piece that did would wait for the next one's disk.
  if (!piece.pages) co_return co_await stream_.send_while_taken(head, piece.bytes(), false);
  if (!head.empty()) {
    CO_TRY(sent, co_await stream_.send_while_taken(head, ConstBytes(), true));
    if (sent < head.size()) co_return sent;
  }
  const auto pages_sent = co_await stream_.send_pages_while_taken(*piece.pages);
  stream_.keep_until_taken(std::move(piece.keepalive));
  CO_TRY(sent, pages_sent);
  co_return head.size() + sent;
}

Task<> ResponseSender::wait_for_reader(BodySource& source) {
  while (true) {
    CO_TRY(kept_for, co_await source.keep());
    CO_TRY(has_room, co_await stream_.wait_for_room(kept_for));
    if (has_room) co_return Result<>{};
  }
}

}  // namespace penstock
