// Answers: one prebuilt head, sent together with the first bytes of the body.
//
// Thread-safety: none.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/http/http_stream.h"
#include "gateway/s3/request.h"

namespace penstock {

// What the connection adds to a response.
struct ResponseTerms {
  std::string_view date;  // IMF-fixdate
  std::string_view request_id;
  std::string_view host_id;
  bool head_only = false;  // HEAD: all headers, no body
  enum class Persistence : std::uint8_t {
    implied,
    close,
    keep_alive
  } persistence = Persistence::implied;
};

// 1xx, 204 and 304 have neither a body nor a length (RFC 9110 6.4.1).
bool has_body(int status);
// Appends the status line and all headers with the empty line. Control characters in values become
// blanks: whatever a caller let through, a response is never split.
void append_response_head(std::string& out, const ResponseTerms& terms, const S3Response& response);

// Sends one response: the head with the first piece in one call, later pieces as the source gives
// them, files without a copy. While the client does not read, no piece is held.
class ResponseSender {
 public:
  // `head` is scratch memory, kept between responses.
  ResponseSender(HttpStream& stream, std::string& head) : stream_(stream), head_(head) {}
  // Errors: those of the stream and of the source; invalid - the source ends before content_length
  // or goes beyond it. When started() is false then, nothing was sent and another response may be;
  // else the connection is of no further use.
  Task<> send(ResponseTerms terms, S3Response response);
  bool started() const { return started_; }
  std::uint64_t body_bytes_sent() const { return body_bytes_sent_; }

 private:
  Task<> send_stream(ResponseTerms terms, S3Response response);
  // How many bytes of both were sent before the peer stopped to take them.
  Task<std::size_t> send_piece(ConstBytes head, Piece piece);
  Task<> wait_for_reader(BodySource& source);

  HttpStream& stream_;
  std::string& head_;
  bool started_ = false;
  std::uint64_t body_bytes_sent_ = 0;
};

}  // namespace penstock
