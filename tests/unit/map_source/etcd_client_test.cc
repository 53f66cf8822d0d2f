// Calls at endpoints that answer byte by byte what a test says, on threads of their own.
#include "server/map_source/etcd_client.h"

#include <doctest/doctest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/runtime.h"
#include "server/map_source/etcd_source.h"
#include "tests/fake/code_of.h"
#include "tests/fake/fake_cluster.h"
#include "tests/fake/seeded_random.h"

namespace penstock {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::seconds;
using tcp = asio::ip::tcp;

struct Asked {
  std::string path;
  std::string head;
  std::string body;
};
struct Said {
  std::string bytes;    // as they go out
  bool goes_on = true;  // the connection is kept, and the next request is read
  bool hangs = false;   // nothing more is said, and the connection is not closed
};

std::string http(unsigned status, const std::string& body, const std::string& more = "") {
  return "HTTP/1.1 " + std::to_string(status) + " x\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// One endpoint, with a thread for each connection.
class RawEndpoint {
 public:
  using Answer = std::function<Said(const Asked& asked)>;
  explicit RawEndpoint(Answer answer) : answer_(std::move(answer)), thread_([this] { run(); }) {}
  ~RawEndpoint() {
    stopping_ = true;
    error_code ignored;
    asio::io_context io;
    tcp::socket wakes(io);
    wakes.connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
    for (const auto& socket : sockets_) {
      const std::lock_guard lock(mutex_);
      socket->shutdown(tcp::socket::shutdown_both, ignored);
    }
    for (std::thread& server : servers_) server.join();
  }
  EtcdEndpoint place() const { return {"127.0.0.1", acceptor_.local_endpoint().port()}; }
  int connections() const { return connections_; }
  std::vector<Asked> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void run() {
    while (!stopping_) {
      error_code failed;
      auto socket = std::make_shared<tcp::socket>(io_);
      acceptor_.accept(*socket, failed);
      if (failed || stopping_) continue;
      ++connections_;
      sockets_.push_back(socket);
      servers_.emplace_back([this, socket] {
        while (!stopping_ && serve_one(*socket)) {
        }
        const std::lock_guard lock(mutex_);
        error_code ignored;
        socket->close(ignored);
      });
    }
  }
  bool serve_one(tcp::socket& socket) {
    error_code failed;
    std::string bytes;
    const std::size_t head =
        asio::read_until(socket, asio::dynamic_buffer(bytes), "\r\n\r\n", failed);
    if (failed) return false;
    Asked asked;
    asked.head = bytes.substr(0, head);
    asked.path = asked.head.substr(5, asked.head.find(' ', 5) - 5);
    const std::size_t at = asked.head.find("Content-Length: ");
    const std::size_t length = at == std::string::npos ? 0 : std::stoul(asked.head.substr(at + 16));
    if (bytes.size() < head + length) {
      asio::read(socket, asio::dynamic_buffer(bytes),
                 asio::transfer_exactly(head + length - bytes.size()), failed);
    }
    asked.body = bytes.substr(head);
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(asked);
    }
    const Said said = answer_(asked);
    asio::write(socket, asio::buffer(said.bytes), failed);
    char more = 0;  // until the client has had enough
    while (said.hangs && !stopping_ && !failed) socket.read_some(asio::buffer(&more, 1), failed);
    return !failed && said.goes_on;
  }

  asio::io_context io_;
  tcp::acceptor acceptor_{io_, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)};
  const Answer answer_;
  std::vector<std::shared_ptr<tcp::socket>> sockets_;  // of thread_, as the next
  std::vector<std::thread> servers_;
  mutable std::mutex mutex_;  // guards the next one, and who ends a socket
  std::vector<Asked> asked_;
  std::atomic<int> connections_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// Nobody listens there: the port was free a moment ago.
EtcdEndpoint dead_place() {
  asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));
  return {"127.0.0.1", acceptor.local_endpoint().port()};
}

struct World {
  explicit World(std::vector<EtcdEndpoint> endpoints, const std::string& user = "") {
    place.endpoints = std::move(endpoints);
    place.user = user;
    place.password = "secret";
    place.text = "etcd";
    client = std::make_unique<EtcdClient>(place, clock, nullptr);
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
  Deadline in(milliseconds time) { return clock.boot() + Duration(time); }
  Result<std::string> call(EtcdClient::Repeat repeat = EtcdClient::Repeat::allowed,
                           milliseconds time = seconds(20)) {
    return run(client->call("/v3/kv/range", "{}", repeat, in(time)));
  }

  asio::io_context io;
  RealClock clock;
  SeededRandom random{7};
  MapPlace place;
  std::unique_ptr<EtcdClient> client;
};

const std::string kAnyHeader = R"({"header":{"cluster_id":"7","revision":"12"})";
constexpr auto kNever = EtcdClient::Repeat::never;
constexpr auto kAllowed = EtcdClient::Repeat::allowed;

}  // namespace

TEST_CASE("the body of an answer is given as it is, and the connection is used again") {
  RawEndpoint etcd([](const Asked& asked) { return Said{http(200, "got " + asked.body)}; });
  World world({etcd.place()});
  for (int call = 0; call < 3; ++call) CHECK(world.call().value() == "got {}");
  CHECK(etcd.connections() == 1);
  CHECK(etcd.asked()[0].path == "/v3/kv/range");
  // What changes something is never sent on a connection that may be closed by now.
  CHECK(world.call(kNever).value() == "got {}");
  CHECK(etcd.asked().size() == 4);
}

TEST_CASE("a connection that was kept and closed meanwhile costs nothing") {
  RawEndpoint etcd([](const Asked&) { return Said{http(200, "x"), false}; });
  World world({etcd.place()});
  for (int call = 0; call < 3; ++call) CHECK(world.call().value() == "x");
  CHECK(etcd.asked().size() == 3);
}

TEST_CASE("refusals keep their meaning; what says nothing about its fate may have happened") {
  struct Case {
    std::string body;
    Errc code;
    Errc of_change;
  };
  for (const Case& one :
       {Case{R"({"error":"bad","message":"bad","code":3})", Errc::invalid, Errc::invalid},
        Case{R"({"error":"gone","code":5})", Errc::not_found, Errc::not_found},
        Case{R"({"error":"no space","code":8})", Errc::full, Errc::full},
        Case{R"({"error":"no leader","code":14})", Errc::unavailable, Errc::timeout},
        Case{"<html>bad gateway</html>", Errc::unavailable, Errc::timeout},
        Case{"", Errc::unavailable, Errc::timeout}}) {
    CAPTURE(one.body);
    RawEndpoint etcd([&one](const Asked&) { return Said{http(503, one.body)}; });
    World world({etcd.place()});
    const auto read = world.call(kAllowed);
    CHECK(code_of(read) == one.code);
    CHECK(read.error().context.find("status 503") != std::string::npos);
    CHECK(code_of(world.call(kNever)) == one.of_change);
  }
}

TEST_CASE("an answer that is cut, or is no HTTP, is none: nobody knows what happened") {
  for (const std::string& bytes :
       {std::string(), std::string("HTTP/1.1 200 OK\r\nContent-Le"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"header\""),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"),
        std::string("SSH-2.0-OpenSSH_9.2\r\n\r\n"), std::string(1000, '\0')}) {
    CAPTURE(bytes);
    RawEndpoint etcd([&bytes](const Asked&) { return Said{bytes, false}; });
    World world({etcd.place()});
    CHECK(code_of(world.call(kAllowed)) == Errc::timeout);
    CHECK(code_of(world.call(kNever)) == Errc::timeout);
  }
}

TEST_CASE("absurd lengths are refused before their bytes come") {
  const std::string chunk = "400000\r\n" + std::string(0x400000, 'x') + "\r\n";
  for (const std::string& bytes :
       {std::string("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n"),
        "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kAnswerBytesMax + 1) + "\r\n\r\n",
        std::string("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"),
        "HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'y') + "\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + chunk + chunk,
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n")}) {
    CAPTURE(bytes.substr(0, 80));
    RawEndpoint etcd([&bytes](const Asked&) { return Said{bytes, false, true}; });
    World world({etcd.place()});
    const auto begin = std::chrono::steady_clock::now();
    CHECK(code_of(world.call(kAllowed, seconds(60))) == Errc::timeout);
    CHECK(std::chrono::steady_clock::now() - begin < seconds(30));  // it did not wait for more
  }
}

TEST_CASE("the largest answer that is taken comes whole") {
  const std::string body(kAnswerBytesMax - 1, 'x');
  RawEndpoint etcd([&body](const Asked&) { return Said{http(200, body)}; });
  World world({etcd.place()});
  const auto answer = world.call();
  REQUIRE(answer);
  CHECK(answer->size() == body.size());
}

TEST_CASE("a server that hangs costs the deadline and no more") {
  for (const std::string& bytes :
       {std::string(), std::string("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")}) {
    RawEndpoint etcd([&bytes](const Asked&) { return Said{bytes, false, true}; });
    World world({etcd.place()});
    for (const auto repeat : {kAllowed, kNever}) {
      const BootTime until = world.clock.boot() + Duration(milliseconds(700));
      CHECK(code_of(world.call(repeat, milliseconds(700))) == Errc::timeout);
      CHECK(world.clock.boot() >= until - Duration(milliseconds(50)));
      CHECK(world.clock.boot() < until + Duration(seconds(10)));
    }
    CHECK(code_of(world.call(kAllowed, milliseconds(0))) == Errc::unavailable);
  }
}

TEST_CASE("of several endpoints one that is dead is passed over, and not asked first again") {
  RawEndpoint etcd([](const Asked&) { return Said{http(200, "x")}; });
  for (const auto repeat : {kAllowed, kNever}) {  // nothing was sent to the dead one
    World world({dead_place(), etcd.place(), dead_place()});
    const int before = etcd.connections();
    for (int call = 0; call < 2; ++call) CHECK(world.call(repeat).value() == "x");
    CHECK(etcd.connections() == before + (repeat == kNever ? 2 : 1));
  }
  World nobody({dead_place(), dead_place()});
  const auto failed = nobody.call();
  CHECK(code_of(failed) == Errc::unavailable);
  CHECK(failed.error().context.find("127.0.0.1:") != std::string::npos);
}

TEST_CASE(
    "of several endpoints a silent one gets its share of the time; a change is not repeated") {
  RawEndpoint silent([](const Asked&) { return Said{"", false, true}; });
  RawEndpoint etcd([](const Asked&) { return Said{http(200, "x")}; });
  {
    World world({silent.place(), etcd.place()});
    CHECK(world.call(kAllowed, seconds(4)).value() == "x");
    CHECK(world.call(kAllowed, seconds(4)).value() == "x");
  }
  CHECK(silent.asked().size() == 1);
  CHECK(etcd.asked().size() == 2);
  World world({silent.place(), etcd.place()});
  CHECK(code_of(world.call(kNever, seconds(2))) == Errc::timeout);
  CHECK(etcd.asked().size() == 2);
  CHECK(world.call(kNever, seconds(20)).value() == "x");  // the next change goes elsewhere
}

TEST_CASE("a login comes first, is kept, and is said again when its token has ended") {
  std::atomic<int> tokens{0};
  RawEndpoint etcd([&tokens](const Asked& asked) -> Said {
    if (asked.path == "/v3/auth/authenticate") {
      return {http(200, kAnyHeader + R"(,"token":"t)" + std::to_string(++tokens) + "\"}"), false};
    }
    const bool first = asked.head.find("Authorization: t1\r\n") != std::string::npos;
    const bool again = asked.head.find("Authorization: t2\r\n") != std::string::npos;
    if (first && asked.body == "late") return {http(401, R"({"error":"token","code":16})")};
    return {http(first || again ? 200 : 403, "x")};
  });
  World world({etcd.place()}, "root");
  CHECK(world.call().value() == "x");
  CHECK(world.call().value() == "x");
  CHECK(tokens == 1);
  CHECK(etcd.asked()[0].body.find("secret") != std::string::npos);
  SUBCASE("of a question") {
    CHECK(world.run(world.client->call("/v3/kv/range", "late", kAllowed, world.in(seconds(20))))
              .value() == "x");
  }
  SUBCASE("of a change: nothing was done with that token") {
    CHECK(world.run(world.client->call("/v3/kv/txn", "late", kNever, world.in(seconds(20))))
              .value() == "x");
  }
  CHECK(tokens == 2);
}

TEST_CASE("a token that is refused however new it is costs one more login, and no more") {
  std::atomic<int> tokens{0};
  RawEndpoint etcd([&tokens](const Asked& asked) -> Said {
    if (asked.path == "/v3/auth/authenticate") {
      return {http(200, kAnyHeader + R"(,"token":"t)" + std::to_string(++tokens) + "\"}"), false};
    }
    return {http(401, R"({"error":"token","code":16})")};
  });
  World world({etcd.place()}, "root");
  CHECK(code_of(world.call()) == Errc::invalid);
  CHECK(tokens == 2);
}

TEST_CASE("a login that is refused, or answered by nonsense, sends nothing else") {
  for (const std::string& body : {std::string("no JSON"), kAnyHeader + R"(,"token":7})"}) {
    RawEndpoint etcd([&body](const Asked&) { return Said{http(200, body), false}; });
    World world({etcd.place()}, "root");
    CHECK(code_of(world.call()) == Errc::corrupt);
    CHECK(etcd.asked().size() == 1);
  }
  RawEndpoint etcd([](const Asked&) {
    return Said{http(400, R"({"error":"who?","code":3})"), false};
  });
  World world({etcd.place()}, "root");
  CHECK(code_of(world.call()) == Errc::invalid);
  CHECK(etcd.asked().size() == 1);
}

TEST_CASE("an endless answer comes piece by piece, and its end is told") {
  RawEndpoint etcd([](const Asked&) {
    return Said{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n",
                false};
  });
  World world({etcd.place()});
  const auto stream = world.run(world.client->begin("/v3/watch", "{}", world.in(seconds(20))));
  REQUIRE(stream);
  std::string all;
  auto piece = world.run((*stream)->more());
  for (; piece; piece = world.run((*stream)->more())) all += *piece;
  CHECK(all == "abcde");
  CHECK(code_of(piece) == Errc::aborted);
  RawEndpoint refuses([](const Asked&) {
    return Said{http(503, R"({"error":"no","code":14})"), false};
  });
  World refused({refuses.place()});
  const auto none = refused.run(refused.client->begin("/v3/watch", "{}", refused.in(seconds(20))));
  CHECK(code_of(none) == Errc::unavailable);
}

TEST_CASE("a source whose etcd answers no JSON says so, and takes no map of it") {
  for (const std::string& body :
       {std::string("no JSON"), std::string("[]"), std::string("{"), std::string(5'000, '[')}) {
    CAPTURE(body.substr(0, 40));
    RawEndpoint etcd([&body](const Asked&) { return Said{http(200, body)}; });
    World world({etcd.place()});
    FakeCluster cluster;
    const MapSourceParts parts{world.clock, world.random, cluster.map->cluster};
    EtcdSource source(world.place, parts, nullptr);
    CHECK(code_of(world.run(source.read(world.in(seconds(20))))) == Errc::corrupt);
    CHECK(!world.run(source.announced(world.in(seconds(20)))));
    CHECK(!world.run(source.drive("somebody", world.in(seconds(20)))));
  }
}

}  // namespace penstock
