// A real HttpServer on an ephemeral loopback port with a small scripted service, and a raw client.
#pragma once
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/http/http_server.h"
#include "penstock/assert.h"
#include "penstock/pinned_pages.h"

namespace penstock::test {

// Gives the pieces of a list, then ends or fails. Those that name a file come as its pinned pages.
class ListSource final : public BodySource {
 public:
  ListSource(std::vector<Piece> pieces, bool fails) : pieces_(std::move(pieces)), fails_(fails) {}
  Task<Piece> next() override {
    if (next_ < pieces_.size()) {
      Piece piece = pieces_[next_++];
      piece.memory_offset += used_of_piece_;
      piece.file_offset += used_of_piece_;
      piece.length -= std::exchange(used_of_piece_, 0);
      if (piece.fd >= 0) pin(piece);
      co_return piece;
    }
    if (fails_) co_return fail(Errc::io, "the disk is gone");
    co_return Piece{};
  }
  void put_back(std::uint64_t count) override {
    used_of_piece_ = pieces_[--next_].length - count;
    if (stalls != nullptr) ++*stalls;
  }
  Task<Duration> keep() override {
    if (kept != nullptr) ++*kept;
    co_return std::chrono::milliseconds(20);
  }
  std::atomic<int>* stalls = nullptr;
  std::atomic<int>* kept = nullptr;

 private:
  static void pin(Piece& piece) {
    piece.pages = PinnedPages::make();
    PENSTOCK_ASSERT(piece.pages != nullptr);
    const bool pinned = piece.pages->pin(piece.fd, piece.file_offset, piece.length);
    PENSTOCK_ASSERT(pinned);
    piece.fd = -1;
  }
  std::vector<Piece> pieces_;
  bool fails_;
  std::size_t next_ = 0;
  std::size_t used_of_piece_ = 0;
};

inline Piece memory_piece(std::string_view text) {
  Piece piece;
  piece.memory = Buffer::copy_of(as_bytes(text));
  piece.length = text.size();
  return piece;
}

// /echo answers the body it read; /ignore answers without reading; /file, /pieces and /broken send
// streams.
class ScriptedService final : public Service {
 public:
  std::atomic<int> handled{0};
  std::atomic<int> body_error{-1};
  std::atomic<int> stalls{0};  // of /file: pieces put back
  std::atomic<int> kept{0};

  Awaitable<void> handle(HttpExchange& exchange) override {
    ++handled;
    const std::string_view path = exchange.head().target;
    S3Response response;
    response.set("X-Path", std::string(path));
    std::string text = "ignored";
    if (path == "/echo") {
      auto body = co_await read_all(exchange.body());
      if (!body) body_error = static_cast<int>(body.error().code);
      text = body ? body.value() : "body failed";
      if (!body) response.status = 400;
    } else if (path == "/broken-at-once" || path == "/broken-later") {
      std::vector<Piece> pieces;
      if (path == "/broken-later") pieces.push_back(memory_piece("first"));
      response.content_length = 10;
      response.body = std::make_unique<ListSource>(std::move(pieces), true);
      const auto sent = co_await exchange.send(std::move(response), false);
      if (sent || exchange.answered()) co_return;
      response = S3Response();
      response.status = 500;
      text = "failed";
    } else if (path == "/file") {
      response.content_length = 7 + file_bytes.size();
      std::vector<Piece> pieces;
      constexpr std::size_t kStep = 700'000;  // no page ends there
      for (std::size_t at = 0; at < file_bytes.size(); at += kStep) {
        pieces.push_back(file_piece(at, std::min(kStep, file_bytes.size() - at)));
      }
      pieces.push_back(memory_piece("-memory"));
      auto source = std::make_unique<ListSource>(std::move(pieces), false);
      source->stalls = &stalls;
      source->kept = &kept;
      response.body = std::move(source);
      [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response), false);
      co_return;
    } else if (path == "/no-content") {
      response.status = 204;
      text.clear();
    } else if (path == "/silent") {
      co_return;
    }
    response.content_length = text.size();
    response.body = std::move(text);
    [[maybe_unused]] const auto sent =
        co_await exchange.send(std::move(response), path == "/close");
  }

  std::string file_bytes;
  std::shared_ptr<int> held = std::make_shared<int>(0);  // by pieces of the file
  int file = -1;
  void make_file(std::size_t length) {
    for (std::size_t i = 0; i < length; ++i) file_bytes += static_cast<char>('a' + i * 7 % 26);
    file = ::memfd_create("pieces", 0);
    [[maybe_unused]] const ssize_t written = ::write(file, file_bytes.data(), length);
  }
  ~ScriptedService() override {
    if (file >= 0) ::close(file);
  }

 private:
  static Task<std::string> read_all(RawBody& body) {
    std::string text;
    std::vector<std::byte> buffer(100'000);
    while (true) {
      CO_TRY(count, co_await body.read(buffer));
      if (count == 0) co_return text;
      text += as_text(ConstBytes(buffer).first(count));
    }
  }
  Piece file_piece(std::uint64_t offset, std::size_t length) const {
    Piece piece;
    piece.fd = file;
    piece.file_offset = offset;
    piece.length = length;
    piece.keepalive = held;
    return piece;
  }
};

class LoopbackServer {
 public:
  explicit LoopbackServer(HttpOptions options = fast()) : LoopbackServer(nullptr, options, 1) {}
  // Serves `other` instead of the scripted service, on so many threads.
  explicit LoopbackServer(Service& other, HttpOptions options = fast(), std::size_t threads = 1)
      : LoopbackServer(&other, options, threads) {}
  ~LoopbackServer() {
    if (!threads_.empty()) stop(Duration(0));
  }
  static HttpOptions fast() {
    HttpOptions options;
    options.deadline_tick = std::chrono::milliseconds(5);
    return options;
  }
  std::uint16_t port() const { return server_.port(); }
  std::size_t connections() const { return server_.connection_count(); }
  std::uint64_t refusals(HttpRefusal reason) const { return server_.refusals().count_of(reason); }
  bool stop(Duration grace) {
    std::promise<bool> stopped;
    auto stopping = stop_server(server_, grace, stopped);
    boost::asio::co_spawn(*contexts_.front(), std::move(stopping), boost::asio::detached);
    const bool clean = stopped.get_future().get();
    guards_.clear();  // each ends when it has nothing left to do
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    return clean;
  }

  ScriptedService service;

 private:
  LoopbackServer(Service* other, HttpOptions options, std::size_t threads)
      : contexts_(make_contexts(threads)),
        server_(pointers(), other == nullptr ? service : *other, clock_, random_, options) {
    service.make_file(3'000'000);
    const auto listening = server_.listen("127.0.0.1", 0);
    if (!listening) std::abort();
    for (const auto& context : contexts_) {
      guards_.push_back(boost::asio::make_work_guard(*context));
      threads_.emplace_back([&context] { context->run(); });
    }
  }
  using Contexts = std::vector<std::unique_ptr<boost::asio::io_context>>;
  static Contexts make_contexts(std::size_t count) {
    Contexts contexts;
    for (std::size_t i = 0; i < count; ++i) {
      contexts.push_back(std::make_unique<boost::asio::io_context>(1));
    }
    return contexts;
  }
  std::vector<boost::asio::io_context*> pointers() const {
    std::vector<boost::asio::io_context*> all;
    for (const auto& context : contexts_) all.push_back(context.get());
    return all;
  }
  static Awaitable<void> stop_server(HttpServer& server, Duration grace,
                                     std::promise<bool>& stopped) {
    const auto result = co_await server.stop(grace);
    stopped.set_value(static_cast<bool>(result));
  }
  RealClock clock_;
  SystemRandom random_;
  Contexts contexts_;
  std::vector<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> guards_;
  HttpServer server_;
  std::vector<std::thread> threads_;
};

struct Answer {
  int status = 0;
  std::string head;
  std::string body;
  bool has(std::string_view line) const {
    return head.find("\r\n" + std::string(line) + "\r\n") != std::string::npos;
  }
};

class RawClient {
 public:
  explicit RawClient(const LoopbackServer& server) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      std::abort();
    const timeval patience{20, 0};  // a hanging test ends
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void end() { ::shutdown(socket_, SHUT_WR); }
  // False once the server has closed the connection, and has said so.
  bool can_send() { return ::send(socket_, "x", 1, MSG_NOSIGNAL) == 1; }
  void receive_at_least(std::size_t bytes) {
    while (pending_.size() < bytes && receive()) {
    }
  }
  // True once the server has closed and nothing is left to read.
  bool at_end() { return pending_.empty() && !receive(); }
  std::string rest() {
    while (receive()) {
    }
    return std::exchange(pending_, {});
  }
  Answer answer(bool head_only = false) {
    Answer answer;
    std::size_t end = std::string::npos;
    while ((end = pending_.find("\r\n\r\n")) == std::string::npos) {
      if (!receive()) return answer;
    }
    answer.head = pending_.substr(0, end + 4);
    pending_.erase(0, end + 4);
    answer.status = std::stoi(answer.head.substr(9, 3));
    const std::size_t at = answer.head.find("Content-Length: ");
    if (head_only || at == std::string::npos) return answer;
    const std::size_t length = std::stoul(answer.head.substr(at + 16));
    while (pending_.size() < length) {
      if (!receive()) break;
    }
    answer.body = pending_.substr(0, length);
    pending_.erase(0, length);
    return answer;
  }

 private:
  bool receive() {
    char buffer[65536];
    const ssize_t received = ::recv(socket_, buffer, sizeof buffer, 0);
    if (received <= 0) return false;
    pending_.append(buffer, static_cast<std::size_t>(received));
    return true;
  }
  int socket_;
  std::string pending_;
};

inline std::string request(const std::string& method, const std::string& path,
                           const std::string& fields = "", const std::string& body = "") {
  return method + " " + path + " HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n" + body;
}

}  // namespace penstock::test
