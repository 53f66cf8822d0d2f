// Reads the answers of an HTTP/1.1 server off one connection, as they come in pieces: status, a few
// headers, and the bytes of the body wherever they lie. Copies nothing but heads.
// Thread-safety: one thread. No I/O.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

class AnswerReader {
 public:
  static constexpr std::size_t kHeadBytesMax = 64 << 10;

  // Before each answer. `to_head`: the request was a HEAD, whose answer has a length but no body.
  void reset(bool to_head);
  // What was taken off the front of what came in; `body` is part of it.
  struct Taken {
    std::size_t bytes = 0;
    std::string_view body;
  };
  // Takes a piece. Call it with the rest until that is empty, done(), or malformed().
  Taken take(std::string_view in);
  // The connection has ended: a body without any length ends with it.
  void end();

  bool done() const { return state_ == State::done; }
  bool malformed() const { return state_ == State::malformed; }
  int status() const { return status_; }
  std::uint64_t body_bytes() const { return body_bytes_; }  // so far
  // What the answer said that its body has; body_bytes() of a chunked one.
  std::uint64_t said_bytes() const { return has_length_ ? length_ : body_bytes_; }
  bool closes() const { return closes_; }  // the server closes the connection after it
  const std::string& head() const { return head_; }
  // A header of the answer, empty without. `name` in lower case.
  std::string_view header(std::string_view name) const;

 private:
  enum class State : std::uint8_t {
    head,
    sized,      // left_ bytes of body
    until_end,  // of the connection
    chunk_size,
    chunk_data,
    chunk_end,
    trailer,
    done,
    malformed,
  };
  void read_head();
  Taken take_head(std::string_view in);
  Taken take_data(std::string_view in);
  Taken take_line(std::string_view in);

  State state_ = State::head;
  bool to_head_ = false;
  bool has_length_ = false;
  bool closes_ = false;
  int status_ = 0;
  std::uint64_t length_ = 0;
  std::uint64_t left_ = 0;
  std::uint64_t body_bytes_ = 0;
  std::string head_;  // through the line end before the empty line
  std::string line_;  // of chunked framing
};

}  // namespace penstock
