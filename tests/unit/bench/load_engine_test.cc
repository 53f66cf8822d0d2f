#include "gateway/bench/load_engine.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/bench/load_sources.h"

namespace penstock {
namespace {

// Answers each request on each connection with one text, after a while.
class FakeServer {
 public:
  explicit FakeServer(std::string answer, Duration after = {}, bool closes = false)
      : answer_(std::move(answer)), after_(after), closes_(closes) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(::listen(listener_, 64) == 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~FakeServer() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    for (auto& thread : threads_) thread.join();
  }
  S3Endpoint endpoint() const { return find_endpoint(url_).value(); }

 private:
  void accept_all() {
    for (int fd = 0; (fd = ::accept(listener_, nullptr, nullptr)) >= 0;) {
      threads_.emplace_back([this, fd] { serve(fd); });
    }
  }
  void serve(int fd) {
    std::string text;
    std::vector<char> piece(4096);
    for (ssize_t n = 0; (n = ::recv(fd, piece.data(), piece.size(), 0)) > 0;) {
      text.append(piece.data(), static_cast<std::size_t>(n));
      const std::size_t end = text.find("\r\n\r\n");
      if (end == std::string::npos) continue;
      text.erase(0, end + 4);
      wait();
      ::send(fd, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      if (closes_) break;
    }
    ::close(fd);
  }
  void wait() {
    std::unique_lock lock(mutex_);
    if (after_ != Duration{}) never_.wait_for(lock, after_);
  }

  const std::string answer_;
  const Duration after_;
  const bool closes_;
  int listener_ = -1;
  std::string url_;
  std::mutex mutex_;
  std::condition_variable never_;
  std::thread acceptor_;
  std::vector<std::thread> threads_;
};

NumberedSource::Fill asks() {
  return [](std::uint64_t, LoadRequest& request) {
    request.head = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    request.expected_bytes = 5;
  };
}

LoadResult load(const FakeServer& server, std::uint64_t count, const LoadOptions& options,
                RequestPace pace = {}) {
  const Content content(1009);
  NumberedSource source(asks(), count, pace);
  return run_load(server.endpoint(), options, content, source, nullptr).value();
}

LoadOptions over(std::uint32_t connections, std::uint32_t threads = 1) {
  LoadOptions options;
  options.connections = connections;
  options.threads = threads;
  return options;
}

LoadOptions lasting(Duration measure, std::uint32_t connections = 1) {
  LoadOptions options = over(connections);
  options.measure = measure;
  return options;
}

constexpr const char* kHello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

TEST_CASE("as many requests are sent as there are, over connections that are kept") {
  const FakeServer server(kHello);
  const LoadResult result = load(server, 500, over(4, 2));
  CHECK(result.tally.good == 500);
  CHECK(result.tally.failed == 0);
  CHECK(result.tally.latency.count() == 500);
  CHECK(result.tally.bytes_in == 500 * std::string(kHello).size());
}

TEST_CASE("a server that closes after each answer is connected to again") {
  const FakeServer server("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
                          {}, true);
  CHECK(load(server, 20, over(2)).tally.good == 20);
}

TEST_CASE("statuses and lengths that are wrong are failures, each told by what it is") {
  const FakeServer busy(
      "HTTP/1.1 503 Slow Down\r\nContent-Length: 28\r\n\r\n<Error><Code>SlowDown</Code>");
  const LoadResult refused = load(busy, 10, over(2));
  CHECK(refused.tally.good == 0);
  CHECK(refused.tally.failed == 10);
  CHECK(refused.tally.failures.at("status 503 SlowDown") == 10);
  const FakeServer small("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
  CHECK(load(small, 3, over(1)).tally.failures.at("an answer of another length") == 3);
}

TEST_CASE("an answer that does not come in time is a failure, and so is one that is cut off") {
  const FakeServer slow(kHello, std::chrono::seconds(1));
  LoadOptions options = over(1);
  options.timeout = Duration(50'000);
  CHECK(load(slow, 1, options).tally.failures.at("no answer in time") == 1);
  const FakeServer cut("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", {}, true);
  CHECK(load(cut, 1, over(1)).tally.failures.at("closed before the answer had ended") == 1);
}

TEST_CASE("nobody who listens is told as that") {
  const Content content(1009);
  NumberedSource source(asks(), 1);
  const auto nobody = find_endpoint("http://127.0.0.1:1").value();
  const auto result = run_load(nobody, over(1), content, source, nullptr);
  CHECK(result.value().tally.failures.at("Connection refused") == 1);
}

TEST_CASE("in an open loop latency counts from when a request was meant to begin") {
  const FakeServer server(kHello, Duration(5'000));
  // One connection serves at most 200 a second; 1,000 are meant: the last waits for the others.
  const RequestPace pace(1'000, bench_now());
  const LoadResult result = load(server, 50, over(1), pace);
  CHECK(result.tally.good == 50);
  CHECK(result.tally.latency.max_us() > 150'000);
  CHECK(load(server, 50, over(1)).tally.latency.percentile_us(0.5) < 150'000);  // closed
}

TEST_CASE("an open loop that has fallen behind still counts what it sends") {
  const FakeServer server(kHello, Duration(2'000));
  LoadOptions options = lasting(Duration(200'000));
  options.warm_up = Duration(100'000);
  // What is sent in the window was meant to begin long before the warm-up ended.
  const LoadResult result = load(server, 0, options, RequestPace(100'000, bench_now()));
  CHECK(result.tally.good > 5);
  CHECK(result.tally.latency.percentile_us(0.5) > 80'000);
}

TEST_CASE("what is under way at the end shows how long it took, and does not count in the rate") {
  const FakeServer server(kHello, Duration(300'000));
  const LoadResult result = load(server, 0, lasting(Duration(50'000)));
  CHECK(result.tally.good == 0);
  CHECK(result.tally.failed == 0);
  CHECK(result.tally.latency.count() == 1);
  CHECK(result.tally.latency.max_us() >= 300'000);
}

TEST_CASE("what is under way from the warm-up until after the end shows how long it took") {
  const FakeServer server(kHello, Duration(400'000));
  LoadOptions options = lasting(Duration(50'000));
  options.warm_up = Duration(50'000);
  const LoadResult result = load(server, 0, options);
  CHECK(result.tally.good == 0);
  CHECK(result.tally.latency.count() == 1);
  CHECK(result.tally.latency.max_us() >= 400'000);
}

TEST_CASE("an open loop sends nothing that is meant for after its end") {
  const FakeServer server(kHello);
  LoadOptions options = lasting(Duration(95'000), 8);
  const LoadResult result = load(server, 0, options, RequestPace(100, bench_now()));
  CHECK(result.tally.latency.count() <= 10);
  CHECK(result.tally.latency.count() >= 5);
}

TEST_CASE("what is under way at the end and is never answered has failed") {
  const FakeServer server(kHello, Duration(1'000'000));
  LoadOptions options = lasting(Duration(50'000), 3);
  options.timeout = Duration(200'000);
  const LoadResult result = load(server, 0, options);
  CHECK(result.tally.good == 0);
  CHECK(result.tally.failures.at("no answer in time") == 3);
}

TEST_CASE("a process that ends while it is measured has no figures") {
  const FakeServer server(kHello, Duration(5'000));
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  LoadOptions options = lasting(Duration(600'000));
  options.pids = {child};
  const Content content(1009);
  NumberedSource source(asks(), 0);
  bool runs = true;
  const auto end_child = [&](const LoadProgress&) {
    if (!std::exchange(runs, false)) return;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  };
  const auto result = run_load(server.endpoint(), options, content, source, end_child);
  REQUIRE_FALSE(runs);
  REQUIRE(result.has_error());
  CHECK(result.error().code == Errc::not_found);
}

TEST_CASE("an interrupted load ends at once, whatever is under way") {
  const FakeServer server(kHello, Duration(1'000'000));
  std::atomic<bool> interrupted{false};
  LoadOptions options = lasting(Duration(60'000'000), 2);
  options.interrupted = &interrupted;
  const Content content(1009);
  NumberedSource source(asks(), 0);
  const BenchTime begun = bench_now();
  const auto interrupt = [&interrupted](const LoadProgress&) { interrupted.store(true); };
  const auto result = run_load(server.endpoint(), options, content, source, interrupt);
  REQUIRE(result.has_error());
  CHECK(result.error().code == Errc::aborted);
  CHECK(bench_now() - begun < Duration(10'000'000));
}

TEST_CASE("endpoints are http, with a host") {
  CHECK(find_endpoint("https://127.0.0.1:9000").error().context.find("TLS") != std::string::npos);
  CHECK(find_endpoint("http://").has_error());
  CHECK(find_endpoint("http://127.0.0.1:99999").has_error());
  CHECK(find_endpoint("http://127.0.0.1:90x").has_error());
  CHECK(find_endpoint("http://127.0.0.1:9000/x").value().host == "127.0.0.1:9000");
  CHECK(find_endpoint("http://[::1]:9000").value().host == "[::1]:9000");
}

}  // namespace
}  // namespace penstock
