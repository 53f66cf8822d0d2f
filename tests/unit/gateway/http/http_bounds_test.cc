// Who may stay when places are few, and what a reader that does not read costs.
#include <doctest/doctest.h>

#include <boost/asio/this_coro.hpp>

#include "gateway/http/http_server.h"
#include "tests/unit/gateway/http/http_loopback.h"

using namespace penstock;
using namespace penstock::test;
using std::chrono::milliseconds;

namespace {

void wait_until(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    REQUIRE(std::chrono::steady_clock::now() < end);
    std::this_thread::yield();
  }
}

// What is sent to a closed socket comes back as a reset, at once.
bool is_read(RawClient& client) {
  for (int i = 0; i < 1000; ++i) {
    if (!client.can_send()) return false;
    std::this_thread::yield();
  }
  return true;
}

// When it returns, all is done that the one thread of the server had begun before.
void round_trip(const LoopbackServer& server) {
  RawClient client(server);
  client.send(request("GET", "/close"));
  CHECK(client.answer().status == 200);
  CHECK(client.at_end());
}

// Sends one piece, then another that waits for finish().
class HalfService final : public Service {
 public:
  static constexpr std::size_t kFirstBytes = 4'000'000;
  Awaitable<void> handle(HttpExchange& exchange) override {
    S3Response response;
    response.content_length = kFirstBytes + 4;
    response.body = std::make_unique<Source>(*this);
    [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response), false);
  }
  void finish() { may_end_ = true; }
  static constexpr Duration kKeep = milliseconds(20);
  std::atomic<bool> waits{false};  // all of the first piece was taken
  std::atomic<int> kept{0};

 private:
  struct Source final : BodySource {
    explicit Source(HalfService& the_service) : service(the_service) {}
    Task<Piece> next() override {
      if (given < kFirstBytes) {
        Piece piece = memory_piece(std::string(std::min(kFirstBytes - given, kStep), 'x'));
        given += piece.length;
        co_return piece;
      }
      const Executor executor = co_await boost::asio::this_coro::executor;
      service.waits = true;
      while (!service.may_end_) co_await boost::asio::post(executor, use_task);
      co_return memory_piece("-end");
    }
    void put_back(std::uint64_t count) override { given -= count; }
    Task<Duration> keep() override {
      ++service.kept;
      co_return kKeep;
    }
    static constexpr std::size_t kStep = 500'000;
    HalfService& service;
    std::size_t given = 0;
  };
  std::atomic<bool> may_end_{false};
};

// Holds up its thread where asked to, as a disk does that hangs.
class StuckService final : public Service {
 public:
  Awaitable<void> handle(HttpExchange& exchange) override {
    if (exchange.head().target == "/stuck") {
      stuck = true;
      stuck.notify_all();
      released.wait(false);
    }
    [[maybe_unused]] const auto sent = co_await exchange.send(S3Response(), false);
  }
  void release() {
    released = true;
    released.notify_all();
  }
  std::atomic<bool> stuck{false}, released{false};
};

std::string half_put() { return request("PUT", "/echo", "Content-Length: 10\r\n", "half"); }

}  // namespace

TEST_CASE("at the bound the connection that idles longest makes room") {
  HttpOptions options = LoopbackServer::fast();
  options.connections_max = 3;
  LoopbackServer server(options);
  RawClient busy(server);
  busy.send(half_put());
  wait_until([&] { return server.service.handled == 1; });
  RawClient silent(server);
  wait_until([&] { return server.connections() == 2; });
  RawClient half_head(server);
  half_head.send("GET / HT");
  wait_until([&] { return server.connections() == 3; });
  RawClient fourth(server);
  fourth.send(request("GET", "/ignore"));
  CHECK(fourth.answer().status == 200);
  CHECK(silent.at_end());
  RawClient fifth(server);
  fifth.send(request("GET", "/ignore"));
  CHECK(fifth.answer().status == 200);
  CHECK(half_head.at_end());
  fourth.send(request("GET", "/ignore"));
  CHECK(fourth.answer().status == 200);  // fifth idles longer now
  RawClient sixth(server);
  sixth.send(request("GET", "/ignore"));
  CHECK(sixth.answer().status == 200);
  CHECK(fifth.at_end());
  busy.send("-whole");
  CHECK(busy.answer().body == "half-whole");
  CHECK(server.refusals(HttpRefusal::evicted_idle) == 3);
  CHECK(server.refusals(HttpRefusal::too_many_connections) == 0);
}

TEST_CASE("a thread that is stuck does not keep others from making room") {
  HttpOptions options = LoopbackServer::fast();
  options.connections_max = 6;
  StuckService service;
  LoopbackServer server(service, options, 2);
  const auto ask = [](RawClient& client) {
    client.send(request("GET", "/"));
    CHECK(client.answer().status == 200);
  };
  RawClient first(server);  // connections go to the two threads in turn
  wait_until([&] { return server.connections() == 1; });
  RawClient rests_longest(server);
  ask(rests_longest);
  ask(first);
  RawClient third(server);
  ask(third);
  RawClient stuck(server);
  stuck.send(request("GET", "/stuck"));
  service.stuck.wait(false);
  RawClient fifth(server);
  ask(fifth);
  RawClient to_the_stuck_thread(server);  // one has to go for it, and the next
  RawClient seventh(server);
  ask(seventh);
  CHECK(first.at_end());
  service.release();
  CHECK(stuck.answer().status == 200);
}

TEST_CASE("at the bound a reader that has paused for long makes room, one that moves does not") {
  HttpOptions options = LoopbackServer::fast();
  options.connections_max = 1;
  options.reader_stalled = milliseconds(5);
  options.paused_evictable = milliseconds(100);
  LoopbackServer server(options);
  RawClient reader(server);
  for (int i = 0; i < 5; ++i) reader.send(request("GET", "/file"));
  wait_until([&] { return server.service.kept > 1; });
  wait_until([&] {  // turned away until the pause is long enough
    RawClient other(server);
    other.send(request("GET", "/ignore"));
    return other.answer().status == 200;
  });
  wait_until([&] { return server.refusals(HttpRefusal::evicted_paused) == 1; });
}

TEST_CASE("who is turned away can read why, whatever it has sent") {
  HttpOptions options = LoopbackServer::fast();
  options.connections_max = 1;
  LoopbackServer server(options);
  RawClient busy(server);
  busy.send(half_put());
  wait_until([&] { return server.service.handled == 1; });
  RawClient other(server);
  other.send(request("PUT", "/echo", "Content-Length: 300000\r\n", std::string(300'000, 'x')));
  const Answer answer = other.answer();
  CHECK(answer.status == 503);
  CHECK(answer.body.find("<Code>SlowDown</Code>") != std::string::npos);
}

TEST_CASE("an address has a bound of its own if one is set") {
  HttpOptions options = LoopbackServer::fast();
  options.connections_per_address = 2;
  LoopbackServer server(options);
  RawClient first(server);
  first.send(half_put());
  RawClient second(server);
  second.send(half_put());
  wait_until([&] { return server.service.handled == 2; });
  RawClient third(server);
  CHECK(third.answer().status == 503);
  CHECK(server.refusals(HttpRefusal::too_many_of_address) == 1);
  second.send("-whole");
  CHECK(second.answer().status == 200);
  RawClient fourth(server);  // in the place of one that idles
  fourth.send(request("GET", "/ignore"));
  CHECK(fourth.answer().status == 200);
  CHECK(second.at_end());
}

TEST_CASE("a new connection has to ask soon, one that has asked may idle for longer") {
  HttpOptions options = LoopbackServer::fast();
  options.first_byte_timeout = milliseconds(50);
  options.idle_holds = milliseconds(10);
  LoopbackServer server(options);
  RawClient asked(server);
  asked.send(request("GET", "/ignore"));
  CHECK(asked.answer().status == 200);
  RawClient silent(server);
  CHECK(silent.at_end());
  asked.send(request("GET", "/ignore"));  // its buffers are gone, it is not
  CHECK(asked.answer().status == 200);
}

namespace {

// A client that asks for large answers and takes nothing of them yet.
struct SlowReader {
  explicit SlowReader(HttpOptions options) : server(patient(options)), client(server) {
    for (int i = 0; i < kAnswers; ++i) client.send(request("GET", "/file"));
    wait_until([this] { return server.service.kept > 3; });
    CHECK(server.service.stalls > 0);
  }
  static HttpOptions patient(HttpOptions options) {
    options.reader_pause = std::chrono::seconds(20);
    return options;
  }
  void take_all() {
    for (int i = 0; i < kAnswers; ++i) {
      CHECK(client.answer().body == server.service.file_bytes + "-memory");
    }
  }

  static constexpr int kAnswers = 6;
  LoopbackServer server;
  RawClient client;
};

}  // namespace

TEST_CASE("a piece that is not taken is put back, and comes again when the client reads on") {
  HttpOptions options = LoopbackServer::fast();
  options.reader_stalled = milliseconds(10);
  SlowReader reader(options);
  reader.take_all();
}

TEST_CASE("what pages are held by stays until the client's host has them, and no longer") {
  HttpOptions options = LoopbackServer::fast();
  options.idle_holds = milliseconds(10);
  SlowReader reader(options);
  const ScriptedService& service = reader.server.service;
  // The list that the answer is made of holds its pieces, and those that were sent are held, too.
  const auto pieces = static_cast<long>(service.file_bytes.size() / 700'000 + 1);
  CHECK(service.held.use_count() > 1 + pieces);
  reader.take_all();
  wait_until([&] { return service.held.use_count() == 1; });
}

TEST_CASE("long heads take memory, and are refused without it") {
  MemoryBudget budget(18 << 10);
  HttpOptions options = LoopbackServer::fast();
  options.memory = &budget;
  LoopbackServer server(options);
  const std::string half = "GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(5000, 'a');
  RawClient first(server);
  first.send(half);
  wait_until([&] { return budget.used_bytes() == 8 << 10; });
  RawClient second(server);
  second.send(half);
  const Answer answer = second.answer();
  CHECK(answer.status == 503);
  CHECK(server.refusals(HttpRefusal::no_memory) == 1);
  first.send("\r\n\r\n");
  CHECK(first.answer().status == 200);
  wait_until([&] { return budget.used_bytes() == 0; });
}

TEST_CASE("a reader that paused once and reads again is not put out for it") {
  HttpOptions options = LoopbackServer::fast();
  options.connections_max = 1;
  options.reader_stalled = milliseconds(5);
  options.paused_evictable = milliseconds(100);
  HalfService service;
  LoopbackServer server(service, options);
  RawClient reader(server);
  reader.send(request("GET", "/"));
  // It pauses for long enough: a newcomer would get its place.
  wait_until([&] { return service.kept > 2 * options.paused_evictable / HalfService::kKeep; });
  reader.receive_at_least(HalfService::kFirstBytes);
  wait_until([&] { return service.waits.load(); });
  const auto end = std::chrono::steady_clock::now() + 2 * options.paused_evictable;
  bool all_turned_away = true;
  while (all_turned_away && std::chrono::steady_clock::now() < end) {
    RawClient newcomer(server);
    all_turned_away = newcomer.answer().status == 503;
  }
  CHECK(all_turned_away);
  service.finish();
  CHECK(reader.answer().body.ends_with("x-end"));
  CHECK(server.refusals(HttpRefusal::evicted_paused) == 0);
}

TEST_CASE("refused connections linger again when others have ended, though some did not") {
  HttpOptions options = LoopbackServer::fast();
  options.lingers_max = 1;
  options.linger = std::chrono::seconds(20);
  LoopbackServer server(options);
  const auto refused = [&] {
    auto client = std::make_unique<RawClient>(server);
    client->send("\x16\x03\x01 no request\r\n\r\n");
    CHECK(client->answer().status == 400);
    CHECK(client->at_end());
    round_trip(server);
    return client;
  };
  auto first = refused();
  const auto second = refused();
  CHECK_FALSE(is_read(*second));  // one too many
  CHECK(is_read(*first));
  first.reset();
  wait_until([&] { return server.connections() == 0; });
  CHECK(is_read(*refused()));
}

TEST_CASE("whoever is turned away lingers again when others have ended, though some did not") {
  HttpOptions options = LoopbackServer::fast();
  options.connections_max = 1;  // and one may linger
  options.linger = std::chrono::seconds(20);
  LoopbackServer server(options);
  RawClient busy(server);
  busy.send(half_put());
  wait_until([&] { return server.service.handled == 1; });
  const auto turned_away = [&] {
    auto client = std::make_unique<RawClient>(server);
    CHECK(client->answer().status == 503);
    CHECK(client->at_end());
    return client;
  };
  auto first = turned_away();
  const auto second = turned_away();
  wait_until([&] { return !is_read(*second); });
  CHECK(is_read(*first));
  first.reset();
  bool lingers = false;
  for (int i = 0; i < 10 && !lingers; ++i) lingers = is_read(*turned_away());
  CHECK(lingers);
}

TEST_CASE("the memory of a long head is given back with its request") {
  MemoryBudget budget(18 << 10);
  HttpOptions options = LoopbackServer::fast();
  options.memory = &budget;
  options.idle_holds = std::chrono::seconds(20);
  LoopbackServer server(options);
  RawClient client(server);
  client.send(request("GET", "/ignore", "X: " + std::string(5000, 'a') + "\r\n"));
  CHECK(client.answer().status == 200);
  wait_until([&] { return budget.used_bytes() == 0; });
  client.send(request("GET", "/ignore"));
  CHECK(client.answer().status == 200);
}
