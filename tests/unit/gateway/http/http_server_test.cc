#include "gateway/http/http_server.h"

#include <doctest/doctest.h>

#include "tests/unit/gateway/http/http_loopback.h"

using namespace penstock;
using namespace penstock::test;
using std::chrono::milliseconds;

TEST_CASE("a connection serves request after request") {
  LoopbackServer server;
  RawClient client(server);
  std::string first_id;
  for (int i = 0; i < 3; ++i) {
    client.send(request("GET", "/ignore"));
    const Answer answer = client.answer();
    CHECK(answer.status == 200);
    CHECK(answer.body == "ignored");
    CHECK(answer.has("X-Path: /ignore"));
    CHECK(answer.has("Server: Penstock"));
    CHECK(answer.head.find("\r\nDate: ") != std::string::npos);
    CHECK(answer.head.find("\r\nx-amz-id-2: ") != std::string::npos);
    const std::size_t at = answer.head.find("\r\nx-amz-request-id: ");
    REQUIRE(at != std::string::npos);
    const std::string id = answer.head.substr(at, 36);
    CHECK(id != first_id);
    first_id = id;
  }
  CHECK(server.connections() == 1);
}

TEST_CASE("pipelined requests are answered in order") {
  LoopbackServer server;
  RawClient client(server);
  std::string all;
  for (int i = 0; i < 50; ++i) {
    all += request("PUT", "/echo", "Content-Length: 2\r\n", std::to_string(10 + i));
  }
  client.send(all);
  for (int i = 0; i < 50; ++i) CHECK(client.answer().body == std::to_string(10 + i));
}

TEST_CASE("what follows a badly framed request is never executed") {
  const std::string bad[] = {
      request("PUT", "/echo", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
      request("PUT", "/echo", "Content-Length: 5\r\nContent-Length: 5\r\n", "hello"),
      request("PUT", "/echo", "Content-Length: +5\r\n", "hello"),
      request("PUT", "/echo", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
      request("PUT", "/echo", "Transfer-Encoding: chunked\t\r\n", "0\r\n\r\n"),
      request("GET", "/echo", "X : y\r\n"),
      request("GET", "/echo", "X: y\r\n folded\r\n"),
      "GET /echo HTTP/1.1\nHost: h\n\n",
      "GET /echo HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
      "PUT /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "GET /#x HTTP/1.1\r\nHost: h\r\n\r\n",
  };
  LoopbackServer server;
  for (const std::string& text : bad) {
    CAPTURE(text);
    RawClient client(server);
    client.send(text + request("GET", "/ignore"));
    client.end();
    const Answer answer = client.answer();
    CHECK(answer.status == 400);
    CHECK(answer.has("Connection: close"));
    CHECK(answer.body.find("<Code>InvalidRequest</Code>") != std::string::npos);
    CHECK(client.at_end());
  }
  CHECK(server.service.handled == 0);
}

TEST_CASE("what follows a badly chunked body is never executed") {
  LoopbackServer server;
  for (const std::string body : {"5;a=b\r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n",
                                 "5\r\nhelloX0\r\n\r\n", "0\r\nTrailer: x\r\n\r\n"}) {
    CAPTURE(body);
    server.service.handled = 0;
    RawClient client(server);
    client.send(request("PUT", "/echo", "Transfer-Encoding: chunked\r\n", body) +
                request("GET", "/ignore"));
    client.end();
    CHECK(client.answer().status == 400);
    CHECK(client.at_end());
    CHECK(server.service.handled == 1);
  }
}

TEST_CASE("bodies arrive whole, whatever their framing and cuts") {
  LoopbackServer server;
  std::string large;
  for (int i = 0; i < 300'000; ++i) large += std::to_string(i);
  std::string chunked;
  for (std::size_t at = 0; at < large.size(); at += 50'001) {
    const std::string piece = large.substr(at, 50'001);
    char size[16];
    std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
    chunked += size + piece + "\r\n";
  }
  chunked += "0\r\n\r\n";
  RawClient client(server);
  for (int round = 0; round < 2; ++round) {
    client.send(
        request("PUT", "/echo", "Content-Length: " + std::to_string(large.size()) + "\r\n"));
    client.send(large);
    CHECK(client.answer().body == large);
    client.send(request("PUT", "/echo", "Transfer-Encoding: chunked\r\n") + chunked);
    CHECK(client.answer().body == large);
  }
  const std::string small =
      request("PUT", "/echo", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  for (const char c : small) client.send(std::string_view(&c, 1));
  CHECK(client.answer().body == "abcde");
}

TEST_CASE("100 Continue is sent when the body is first read") {
  LoopbackServer server;
  RawClient client(server);
  client.send(request("PUT", "/echo", "Content-Length: 5\r\nExpect: 100-Continue\r\n"));
  const Answer interim = client.answer();
  CHECK(interim.head == "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hello");
  CHECK(client.answer().body == "hello");
  client.send(request("GET", "/ignore"));
  CHECK(client.answer().status == 200);
}

TEST_CASE("an expectation without a body is met, too") {
  LoopbackServer server;
  RawClient client(server);
  for (int round = 0; round < 2; ++round) {
    client.send(request("PUT", "/ignore", "Content-Length: 0\r\nExpect: 100-continue\r\n"));
    CHECK(client.answer().head == "HTTP/1.1 100 Continue\r\n\r\n");
    const Answer answer = client.answer();
    CHECK(answer.status == 200);
    CHECK_FALSE(answer.has("Connection: close"));
  }
}

TEST_CASE("an answer without reading the expected body sends no 100 and closes") {
  LoopbackServer server;
  RawClient client(server);
  client.send(request("PUT", "/ignore", "Content-Length: 5\r\nExpect: 100-continue\r\n"));
  const Answer answer = client.answer();
  CHECK(answer.status == 200);
  CHECK(answer.has("Connection: close"));
  client.send("GET /ignore HTTP/1.1\r\nHost: h\r\n\r\n");
  client.end();
  CHECK(client.at_end());
  CHECK(server.service.handled == 1);
}

TEST_CASE("a small unread body keeps the connection, a large one ends it") {
  LoopbackServer server;
  RawClient client(server);
  const std::string small(1000, 'x');
  client.send(request("PUT", "/ignore", "Content-Length: 1000\r\n", small.substr(1)));
  CHECK_FALSE(client.answer().has("Connection: close"));
  client.send("x" + request("PUT", "/ignore", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"));
  CHECK_FALSE(client.answer().has("Connection: close"));
  const std::string large(2'000'000, 'x');
  client.send(request("PUT", "/ignore", "Content-Length: 2000000\r\n", large));
  CHECK(client.answer().has("Connection: close"));
  client.end();
  CHECK(client.at_end());
}

TEST_CASE("HEAD, 204 and HTTP/1.0 are answered as they must be") {
  LoopbackServer server;
  RawClient client(server);
  client.send(request("HEAD", "/ignore") + request("HEAD", "/file") +
              request("GET", "/no-content"));
  CHECK(client.answer(true).has("Content-Length: 7"));
  CHECK(client.answer(true).has("Content-Length: 3000007"));
  const Answer none = client.answer();
  CHECK(none.status == 204);
  CHECK(none.head.find("Content-Length") == std::string::npos);
  client.send("GET /ignore HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  CHECK(client.answer().has("Connection: keep-alive"));
  client.send("GET /ignore HTTP/1.0\r\n\r\n");
  CHECK(client.answer().has("Connection: close"));
  CHECK(client.at_end());
}

TEST_CASE("the connection ends when client or service say so") {
  LoopbackServer server;
  RawClient client(server);
  client.send(request("GET", "/ignore", "Connection: close\r\n"));
  CHECK(client.answer().has("Connection: close"));
  CHECK(client.at_end());
  RawClient second(server);
  second.send(request("GET", "/close"));
  CHECK(second.answer().has("Connection: close"));
  CHECK(second.at_end());
  RawClient third(server);
  third.send(request("GET", "/silent"));
  CHECK(third.at_end());
}

TEST_CASE("pieces of files and of memory make one body") {
  LoopbackServer server;
  RawClient client(server);
  for (int i = 0; i < 3; ++i) {
    client.send(request("GET", "/file"));
    CHECK(client.answer().body == server.service.file_bytes + "-memory");
  }
}

TEST_CASE("a body that fails before its first byte becomes an error answer") {
  LoopbackServer server;
  RawClient client(server);
  client.send(request("GET", "/broken-at-once") + request("GET", "/ignore"));
  const Answer answer = client.answer();
  CHECK(answer.status == 500);
  CHECK(answer.body == "failed");
  CHECK(client.answer().status == 200);
}

TEST_CASE("a body that fails later ends the connection, never short on keep-alive") {
  LoopbackServer server;
  RawClient client(server);
  client.send(request("GET", "/broken-later") + request("GET", "/ignore"));
  const Answer answer = client.answer();
  CHECK(answer.has("Content-Length: 10"));
  CHECK(answer.body == "first");
  CHECK(client.at_end());
  CHECK(server.service.handled == 1);
}
