// Who may stay when places are few, and what a reader that does not read costs.
#include <doctest/doctest.h>

#include "gateway/http_server.h"
#include "http_loopback.h"

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

TEST_CASE("a piece that is not taken is put back, and comes again when the client reads on") {
  HttpOptions options = LoopbackServer::fast();
  options.reader_stalled = milliseconds(10);
  options.reader_pause = std::chrono::seconds(20);
  LoopbackServer server(options);
  RawClient client(server);
  constexpr int kAnswers = 6;
  for (int i = 0; i < kAnswers; ++i) client.send(request("GET", "/file"));
  wait_until([&] { return server.service.kept > 3; });
  CHECK(server.service.stalls > 0);
  for (int i = 0; i < kAnswers; ++i) {
    CHECK(client.answer().body == server.service.file_bytes + "-memory");
  }
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
