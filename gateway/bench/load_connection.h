// One connection of the load generator: sends a request, reads its answer, and says what became of
// it. Non-blocking; the engine calls it when its socket is ready.
// Thread-safety: one thread.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/bench/answer_reader.h"
#include "gateway/bench/content.h"
#include "gateway/bench/load_source.h"
#include "penstock/result.h"

namespace penstock {

struct SocketAddress {
  sockaddr_storage address{};
  socklen_t length = 0;
};
// Errors: invalid - no http://HOST[:PORT]; not_found - no such host.
struct S3Endpoint {
  SocketAddress peer;
  std::string host;  // as it stands in the Host header
};
Result<S3Endpoint> find_endpoint(const std::string& url);

class LoadConnection {
 public:
  LoadConnection(const SocketAddress& peer, const Content& content, bool verify)
      : peer_(peer), content_(content), verify_(verify) {}
  LoadConnection(const LoadConnection&) = delete;
  LoadConnection& operator=(const LoadConnection&) = delete;
  ~LoadConnection() { close(); }

  int fd() const { return fd_; }
  // Begins to connect. Errors: io - no socket is to be had.
  Result<> dial();
  void close();

  LoadRequest& request() { return request_; }
  const LoadRequest& request() const { return request_; }
  // Begins to send request().
  void begin(BenchTime now);
  bool busy() const { return busy_; }
  bool has_to_send() const { return busy_ && sent_ < total_; }
  BenchTime started() const { return started_; }  // when it was meant to begin
  BenchTime sent() const { return sent_at_; }     // … and when it began
  BenchTime first_byte() const { return first_byte_; }
  std::uint64_t received_bytes() const { return received_; }  // of this answer, heads included

  // The socket can take bytes. False: it broke, outcome() says how.
  bool send_more();
  // The socket has bytes; `buffer` is scratch. True: the answer has ended, or the connection broke.
  bool receive(std::string& buffer, BenchTime now);
  // What became of the request. The connection is of no use any more unless usable().
  const LoadOutcome& outcome() const { return outcome_; }
  bool usable() const { return fd_ >= 0 && !broken_; }
  void give_up(const char* why);  // e.g. after a time out

 private:
  bool send_text(std::string_view text, std::uint64_t begins, bool more);
  bool send_content();
  void take(std::string_view in);
  void judge();
  void break_off(std::string why);

  const SocketAddress& peer_;
  const Content& content_;
  const bool verify_;
  int fd_ = -1;
  int dial_error_ = 0;
  bool busy_ = false;
  bool broken_ = false;
  bool wrong_content_ = false;
  LoadRequest request_;
  std::uint64_t sent_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t received_ = 0;
  AnswerReader answer_;
  LoadOutcome outcome_;
  BenchTime started_{};
  BenchTime sent_at_{};
  BenchTime first_byte_{};
};

}  // namespace penstock
