// What the server does at its bounds: sizes, numbers and times.
#include <doctest/doctest.h>

#include "gateway/http/http_server.h"
#include "gateway/http/http_stream.h"
#include "tests/fake/code_of.h"
#include "tests/unit/gateway/http/http_loopback.h"

using namespace penstock;
using namespace penstock::test;
using std::chrono::milliseconds;

TEST_CASE("a head over the limit is refused, one at the limit served") {
  LoopbackServer server;
  const std::string frame = request("GET", "/ignore", "X: \r\n");
  const std::size_t room = limits::kHeaderBytesMax - frame.size();
  {
    RawClient client(server);
    client.send(request("GET", "/ignore", "X: " + std::string(room, 'a') + "\r\n"));
    CHECK(client.answer().status == 200);
    client.send(request("PUT", "/echo", "Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\n\r\n"));
    CHECK(client.answer().body == "a");
  }
  for (const std::size_t more : {std::size_t{1}, std::size_t{2}, std::size_t{1'000'000}}) {
    RawClient client(server);
    client.send(request("GET", "/ignore", "X: " + std::string(room + more, 'a') + "\r\n"));
    client.end();
    const Answer answer = client.answer();
    CHECK(answer.status == 400);  // as S3; HTTP has 431 for it
    CHECK(answer.body.find("<Code>RequestHeaderSectionTooLarge</Code>") != std::string::npos);
    CHECK(client.at_end());
  }
  CHECK(server.refusals(HttpRefusal::head_too_large) == 3);
  CHECK(server.refusals(HttpRefusal::malformed_head) == 0);
}

TEST_CASE("what ends before it is a request is counted by reason, a request is not") {
  LoopbackServer server;
  const auto counts = [&server] {
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < kHttpRefusalNames.size(); ++i) {
      all.push_back(server.refusals(static_cast<HttpRefusal>(i)));
    }
    return all;
  };
  std::string fields;
  for (std::size_t i = 0; i < limits::kHeaderFieldsMax; ++i) fields += "A: b\r\n";
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\nHost: h\n\n"), std::string("GET / HTTP/1.1\r\n\r\n"),
        request("GET", "/ignore", "Content-Length: x\r\n"), request("GET", "/ignore", fields)}) {
    RawClient client(server);
    client.send(bytes);
    CHECK(client.answer().status == 400);
  }
  RawClient good(server);
  good.send(request("GET", "/ignore"));
  CHECK(good.answer().status == 200);
  CHECK(counts() == std::vector<std::uint64_t>{0, 0, 3, 1, 0, 0, 0, 0, 0});
}

TEST_CASE("a head that does not end in time is answered and closed") {
  HttpOptions options = LoopbackServer::fast();
  options.header_timeout = milliseconds(30);
  LoopbackServer server(options);
  RawClient client(server);
  client.send("GET / HTTP/1.1\r\nHost: h\r\n");
  const Answer answer = client.answer();
  CHECK(answer.status == 400);
  CHECK(answer.body.find("<Code>RequestTimeout</Code>") != std::string::npos);
  CHECK(server.refusals(HttpRefusal::head_timeout) == 1);
  client.end();
  CHECK(client.at_end());
}

TEST_CASE("an idle connection is closed without a word") {
  HttpOptions options = LoopbackServer::fast();
  options.idle_timeout = milliseconds(30);
  LoopbackServer server(options);
  RawClient client(server);
  client.send(request("GET", "/ignore"));
  CHECK(client.answer().status == 200);
  CHECK(client.rest().empty());
  RawClient never_spoke(server);
  CHECK(never_spoke.rest().empty());
}

TEST_CASE("a body that stalls is a timeout") {
  HttpOptions options = LoopbackServer::fast();
  options.body_stall = milliseconds(30);
  LoopbackServer server(options);
  RawClient client(server);
  client.send(request("PUT", "/echo", "Content-Length: 10\r\n", "half"));
  const Answer answer = client.answer();
  CHECK(answer.status == 400);
  CHECK(answer.has("Connection: close"));
  CHECK(server.service.body_error == static_cast<int>(Errc::timeout));
}

TEST_CASE("a body that ends early is aborted") {
  LoopbackServer server;
  RawClient client(server);
  client.send(request("PUT", "/echo", "Content-Length: 10\r\n", "half"));
  client.end();
  CHECK(client.answer().status == 400);
  CHECK(server.service.body_error == static_cast<int>(Errc::aborted));
}

TEST_CASE("a reader that stops reading is closed") {
  HttpOptions options = LoopbackServer::fast();
  options.reader_stalled = milliseconds(10);
  options.reader_pause = milliseconds(30);
  LoopbackServer server(options);
  RawClient client(server);
  std::string many;
  for (int i = 0; i < 20; ++i) many += request("GET", "/file");
  client.send(many);
  while (server.connections() == 0 || server.service.handled == 0) std::this_thread::yield();
  while (server.connections() > 0) std::this_thread::yield();
  CHECK(server.service.handled < 20);
}

TEST_CASE("patience is spent by waiting only, and bytes at the minimum rate renew it") {
  StreamPace pace(std::chrono::seconds(30), 64 * 1024);
  pace.waited(std::chrono::seconds(29));
  pace.moved(1000);
  CHECK(pace.patience_left() == std::chrono::seconds(1));
  pace.moved(30 * 64 * 1024);
  CHECK(pace.patience_left() == std::chrono::seconds(30));
  pace.waited(std::chrono::seconds(40));
  CHECK(pace.patience_left() == Duration(1));  // the next wait ends at once
}

TEST_CASE("connections beyond the bound are told to slow down") {
  HttpOptions options = LoopbackServer::fast();
  options.connections_max = 2;
  LoopbackServer server(options);
  RawClient first(server);
  RawClient second(server);
  first.send(request("PUT", "/echo", "Content-Length: 10\r\n", "half"));
  second.send(request("PUT", "/echo", "Content-Length: 10\r\n", "half"));
  while (server.service.handled < 2) std::this_thread::yield();
  RawClient third(server);
  const Answer answer = third.answer();
  CHECK(answer.status == 503);
  CHECK(answer.body.find("<Code>SlowDown</Code>") != std::string::npos);
  CHECK(server.refusals(HttpRefusal::too_many_connections) == 1);
  const std::string name = "\r\nx-amz-request-id: ";
  const std::size_t at = answer.head.find(name);
  REQUIRE(at != std::string::npos);
  const std::string id = answer.head.substr(at + name.size(), 16);
  CHECK(answer.body.find("<RequestId>" + id + "</RequestId>") != std::string::npos);
  CHECK(answer.has("Connection: close"));
  CHECK(third.at_end());
  first.send("-whole");
  CHECK(first.answer().body == "half-whole");
}

TEST_CASE("stop closes idle connections and lets a request in work end") {
  LoopbackServer server;
  RawClient idle(server);
  idle.send(request("GET", "/ignore"));
  CHECK(idle.answer().status == 200);
  RawClient busy(server);
  busy.send(request("PUT", "/echo", "Content-Length: 10\r\n", "half"));
  while (server.service.handled < 2) std::this_thread::yield();
  std::thread stopper([&server] { CHECK(server.stop(std::chrono::seconds(20))); });
  CHECK(idle.at_end());
  busy.send("-whole");
  const Answer answer = busy.answer();
  CHECK(answer.body == "half-whole");
  CHECK(answer.has("Connection: close"));
  stopper.join();
}

TEST_CASE("stop ends what does not end by itself") {
  LoopbackServer server;
  RawClient stuck(server);
  stuck.send(request("PUT", "/echo", "Content-Length: 10\r\n", "half"));
  while (server.service.handled < 1) std::this_thread::yield();
  CHECK(server.stop(Duration(0)));
  CHECK(server.service.body_error == static_cast<int>(Errc::shutting_down));
}

TEST_CASE("an address that cannot be listened on is an error") {
  LoopbackServer server;
  boost::asio::io_context context;
  RealClock clock;
  SystemRandom random;
  HttpServer second({&context}, server.service, clock, random);
  const auto taken = second.listen("127.0.0.1", server.port());
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == Errc::io);
  const auto name = second.listen("not-an-address", 0);
  REQUIRE_FALSE(name);
  CHECK(code_of(name) == Errc::invalid);
}
