#include "gateway/bench/answer_reader.h"

#include <doctest/doctest.h>

namespace penstock {
namespace {

// Feeds `text` in pieces of `step`; returns the body.
std::string feed(AnswerReader& reader, std::string_view text, std::size_t step) {
  std::string body;
  while (!text.empty() && !reader.done() && !reader.malformed()) {
    std::string_view piece = text.substr(0, step);
    const std::size_t given = piece.size();
    while (!piece.empty() && !reader.done() && !reader.malformed()) {
      const auto taken = reader.take(piece);
      body += taken.body;
      piece.remove_prefix(taken.bytes);
    }
    text.remove_prefix(given - piece.size());
  }
  return body;
}

struct Case {
  const char* text;
  bool to_head;
  int status;
  const char* body;
};

TEST_CASE("an answer is read the same in pieces of any length") {
  const Case cases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\nhello", false, 200, "hello"},
      {"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", true, 200, ""},
      {"HTTP/1.1 204 No Content\r\n\r\n", false, 204, ""},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", false, 200,
       "ab"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n",
       false, 200, "hello!"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\nX: y\r\n\r\n",
       false, 200, "hi"},
      {"HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", false, 503, ""},
  };
  for (const Case& one : cases) {
    for (const std::size_t step : {1, 2, 3, 7, 1000}) {
      CAPTURE(one.text);
      AnswerReader reader;
      reader.reset(one.to_head);
      CHECK(feed(reader, one.text, step) == one.body);
      CHECK(reader.done());
      CHECK(reader.status() == one.status);
    }
  }
}

TEST_CASE("the answer to a HEAD says the length that it does not send") {
  AnswerReader reader;
  reader.reset(true);
  feed(reader, "HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n", 100);
  CHECK(reader.said_bytes() == 4096);
  CHECK(reader.body_bytes() == 0);
}

TEST_CASE("bytes behind an answer are left for the next one") {
  AnswerReader reader;
  reader.reset(false);
  const std::string_view text = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab";
  const auto head = reader.take(text);
  const auto body = reader.take(text.substr(head.bytes));
  CHECK(body.body == "a");
  CHECK(reader.done());
  CHECK(reader.take("b").bytes == 0);
}

TEST_CASE("headers are found in any case, without their blanks") {
  AnswerReader reader;
  reader.reset(false);
  feed(reader,
       "HTTP/1.1 200 OK\r\nETag:  \"abc\"\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", 9);
  CHECK(reader.header("etag") == "\"abc\"");
  CHECK(reader.header("x-absent").empty());
  CHECK(reader.closes());
}

TEST_CASE("what is no answer is told") {
  for (const char* text : {"SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 abc\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    AnswerReader reader;
    reader.reset(false);
    feed(reader, text, 4);
    CHECK(reader.malformed());
  }
}

TEST_CASE("a body without a length ends with its connection, one with a length does not") {
  AnswerReader reader;
  reader.reset(false);
  CHECK(feed(reader, "HTTP/1.0 200 OK\r\n\r\nabc", 100) == "abc");
  CHECK_FALSE(reader.done());
  reader.end();
  CHECK(reader.done());
  reader.reset(false);
  feed(reader, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 100);
  reader.end();
  CHECK(reader.malformed());
}

}  // namespace
}  // namespace penstock
