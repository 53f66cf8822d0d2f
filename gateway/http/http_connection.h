// One HTTP/1.1 connection: head, service, answer, again; as one coroutine on one I/O thread.
//
//   waiting --head complete--> serving --answered, body read--> waiting
//      |                          |
//      | idle, peer ended, stop   | refused, failed, "close", body unread
//      v                          v
//    closed <-----linger------ closing
#pragma once
#include <boost/asio/ip/address.hpp>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/http/http_exchange.h"
#include "gateway/http/http_input.h"
#include "gateway/http/http_loop.h"
#include "gateway/http/http_response.h"
#include "gateway/http/http_stream.h"

namespace penstock {

class HttpConnection final : public HttpExchange, public HttpLoop::Member, private PauseListener {
 public:
  // Ownership: keeps the loop alive; takes the socket. `address`: as HttpLoop::join().
  HttpConnection(std::shared_ptr<HttpLoop> loop, HttpStream::Socket socket, std::uint32_t address);
  ~HttpConnection() override { loop_->wake(*this); }

  // Serves until the connection ends, then closes it.
  Awaitable<void> run();

  const HttpHead& head() const override { return head_; }
  RawBody& body() override { return body_; }
  std::uint64_t body_bytes_read() const override { return body_.bytes_read(); }
  std::string_view request_id() const override { return request_id_; }
  std::string_view host_id() const override { return loop_->host_id(); }
  std::string remote() const override { return remote_.to_string(); }
  bool file_pieces() const override { return loop_->shared().options.sendfile; }
  Task<> send(S3Response response, bool close) override;
  bool answered() const override { return answered_; }
  std::uint64_t body_bytes_sent() const override { return body_bytes_sent_; }

 private:
  enum class Next : std::uint8_t { serve, close, linger };

  void stop(bool at_once) override;
  bool give_way(HttpLoop::Rest kind) override;
  void paused() override { loop_->rest(*this, HttpLoop::Rest::paused); }
  void resumed() override { loop_->wake(*this); }
  Awaitable<Next> read_head();
  Task<std::size_t> wait_for_request();
  Awaitable<Next> read_rest_of_head(HeadScan& scan);
  Awaitable<Next> accept_head(std::size_t head_bytes);
  Awaitable<Next> serve();
  Awaitable<Next> refuse(HttpRefusal reason, S3Error error);
  Awaitable<void> linger();
  void start_exchange();
  void release_buffers();

  std::shared_ptr<HttpLoop> loop_;
  const boost::asio::ip::address remote_;
  HttpStream stream_;
  InputBuffer input_;
  ConnectionBody body_;
  HttpHead head_;
  std::string response_head_;
  std::string request_id_;
  std::uint64_t body_bytes_sent_ = 0;
  bool waiting_ = false;  // for the first byte of a request
  bool lingering_ = false;
  bool has_asked_ = false;
  bool answered_ = false;
  bool head_valid_ = false;
  bool keep_open_ = false;  // after this answer
  bool send_failed_ = false;
};

}  // namespace penstock
