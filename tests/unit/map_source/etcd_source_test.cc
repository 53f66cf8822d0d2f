// An etcd that answers what a test says, on a thread of its own.
#include "server/map_source/etcd_source.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "penstock/runtime.h"
#include "tests/fake/clock_ahead.h"
#include "tests/fake/code_of.h"
#include "tests/fake/fake_cluster.h"

namespace penstock {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;

// Serves one connection after another.
class FakeEtcd {
 public:
  struct Said {
    std::optional<std::string> body;  // nullopt: the connection is closed without an answer
    std::chrono::milliseconds late{0};
  };
  using Answer = std::function<Said(const std::string& path)>;
  explicit FakeEtcd(Answer answer) : answer_(std::move(answer)), thread_([this] { run(); }) {}
  ~FakeEtcd() {
    stopping_ = true;
    stop_.set_value();
    boost::system::error_code ignored;
    asio::io_context io;
    tcp::socket wakes(io);
    wakes.connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  void run() {
    while (!stopping_) {
      boost::system::error_code failed;
      tcp::socket socket(io_);
      acceptor_.accept(socket, failed);
      if (!failed && !stopping_) serve(socket);
    }
  }
  void serve(tcp::socket& socket) {
    boost::beast::flat_buffer buffer;
    boost::system::error_code failed;
    while (!stopping_) {
      http::request<http::string_body> request;
      http::read(socket, buffer, request, failed);
      if (failed) return;
      const Said said = answer_(std::string(request.target()));
      (void)stopped_.wait_for(said.late);
      if (!said.body) return;
      http::response<http::string_body> response(http::status::ok, 11);
      response.keep_alive(true);
      response.body() = *said.body;
      response.prepare_payload();
      http::write(socket, response, failed);
      if (failed) return;
    }
  }

  asio::io_context io_;
  tcp::acceptor acceptor_{io_, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)};
  const Answer answer_;
  std::promise<void> stop_;
  const std::shared_future<void> stopped_{stop_.get_future()};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

struct SourceHarness {
  explicit SourceHarness(FakeEtcd& etcd) : SourceHarness(etcd, nullptr) {}
  SourceHarness(FakeEtcd& etcd, Clock* other) {
    MapPlace place;
    place.endpoints = {{"127.0.0.1", etcd.port()}};
    place.text = "etcd";
    const MapSourceParts parts{other ? *other : clock, random, cluster.map->cluster};
    source = std::make_unique<EtcdSource>(std::move(place), parts, nullptr);
  }
  template <class T>
  Result<T> run(Task<T> task) {
    std::optional<Result<T>> done;
    asio::co_spawn(io, std::move(task),
                   [&done](std::exception_ptr, Result<T> result) { done = std::move(result); });
    io.restart();
    while (!done) io.run_one();
    return std::move(*done);
  }
  Deadline in(std::chrono::milliseconds time) { return clock.boot() + Duration(time); }

  asio::io_context io;
  RealClock clock;
  SystemRandom random;
  FakeCluster cluster;
  std::unique_ptr<EtcdSource> source;
};

const std::string kHeader = R"({"header":{"cluster_id":"7","revision":"12"})";

}  // namespace

TEST_CASE("a replacement that has happened is told, whoever changes the map after it") {
  std::atomic<int> asked{0};
  FakeEtcd etcd([&asked](const std::string& path) -> FakeEtcd::Said {
    if (path == "/v3/kv/txn") return {kHeader + R"(,"succeeded":true})"};
    ++asked;  // somebody else's map by now
    return {kHeader + R"(,"kvs":[{"key":"bQ==","create_revision":"3","mod_revision":"15",)"
                      R"("version":"9","value":"eA=="}]})"};
  });
  const auto time = std::chrono::seconds(20);
  {
    SourceHarness h(etcd);
    const auto replaced = h.run(h.source->replace(h.cluster.map, "7.3.9.4", h.in(time)));
    REQUIRE(replaced);
    CHECK(*replaced == "7.3.12.5");
  }
  SourceHarness h(etcd);
  const auto first = h.run(h.source->replace(h.cluster.map, "", h.in(time)));
  REQUIRE(first);
  CHECK(*first == "7.12.12.1");
  CHECK(asked == 0);
}

TEST_CASE("a replacement with an answer that nobody understands may have happened") {
  FakeEtcd etcd([](const std::string&) { return FakeEtcd::Said{"{\"header\":7}"}; });
  SourceHarness h(etcd);
  const auto replaced = h.run(h.source->replace(h.cluster.map, "", h.in(std::chrono::seconds(20))));
  CHECK(code_of(replaced) == Errc::timeout);
}

TEST_CASE("an idle connection that breaks late costs no second deadline") {
  std::atomic<int> calls{0};
  FakeEtcd etcd([&calls](const std::string&) -> FakeEtcd::Said {
    const int call = ++calls;
    if (call == 1) return {kHeader + "}"};
    return {std::nullopt, std::chrono::milliseconds(call == 2 ? 1500 : 4000)};
  });
  SourceHarness h(etcd);
  REQUIRE(h.run(h.source->read(h.in(std::chrono::seconds(20)))));
  const auto begin = std::chrono::steady_clock::now();
  CHECK(!h.run(h.source->read(h.in(std::chrono::seconds(2)))));
  const auto spent = std::chrono::steady_clock::now() - begin;
  CHECK(calls == 3);
  CHECK(spent < std::chrono::milliseconds(3000));
}

TEST_CASE("what is no map of this cluster is told, and can be replaced") {
  FakeEtcd etcd([](const std::string& path) -> FakeEtcd::Said {
    if (path == "/v3/kv/txn") return {kHeader + R"(,"succeeded":true})"};
    return {kHeader + R"(,"kvs":[{"key":"bQ==","create_revision":"3","mod_revision":"15",)"
                      R"("version":"9","value":"eA=="}]})"};
  });
  const auto time = std::chrono::seconds(20);
  {
    SourceHarness h(etcd);
    const auto head = h.run(h.source->read(h.in(time)));
    REQUIRE(head);
    CHECK(head->map == nullptr);
    CHECK(head->revision == "7.3.15.9");
    CHECK(!head->unreadable.empty());
  }
  SourceHarness h(etcd);
  CHECK(h.run(h.source->replace(h.cluster.map, "7.3.15.9", h.in(time))));
}

// An etcd that came back older has lost it, and says that the lease is there.
TEST_CASE(
    "an announcement is stored again when it changes, when its lease is new, or from time to "
    "time") {
  std::atomic<int> stored{0};
  std::atomic<bool> lease_is_gone{false};
  FakeEtcd etcd([&](const std::string& path) -> FakeEtcd::Said {
    if (path == "/v3/lease/keepalive") {
      return {R"({"result":{"ID":"5","TTL":")" + std::string(lease_is_gone ? "0" : "10") + "\"}}"};
    }
    if (path == "/v3/lease/grant") return {kHeader + R"(,"ID":"5","TTL":"10"})"};
    if (path == "/v3/kv/put") ++stored;
    return {kHeader + "}"};
  });
  RealClock real;
  ClockAhead clock(real);
  SourceHarness h(etcd, &clock);
  Announcement words{"10.0.0.1:9200", "", "", {{VolumeId{3}, 7}}};
  const auto say = [&] {
    return h.run(h.source->announce(words, clock.boot() + Duration(std::chrono::seconds(20))));
  };
  for (int i = 0; i < 3; ++i) CHECK(say());
  CHECK(stored == 1);
  words.host = "h1";
  CHECK(say());
  CHECK(stored == 2);
  clock.boot_ahead = std::chrono::seconds(25);
  CHECK(say());
  CHECK(stored == 2);
  clock.boot_ahead = std::chrono::seconds(31);
  CHECK(say());
  CHECK(stored == 3);
  lease_is_gone = true;
  CHECK(say());
  CHECK(stored == 4);
}

}  // namespace penstock
