#include "server/map_source/etcd_json.h"

#include <doctest/doctest.h>

#include "tests/fake/code_of.h"
#include "tests/fake/seeded_random.h"

namespace penstock::etcd {
namespace {

// As etcd 3.4.23 answers.
const std::string kHeader =
    R"("header":{"cluster_id":"12101053776118486841","member_id":"15985099378392235387",)"
    R"("revision":"2","raft_term":"2"})";

}  // namespace

TEST_CASE("requests have the form that etcd's gateway takes") {
  CHECK(range_of_key("/p/map", true) == R"({"key":"L3AvbWFw"})");
  CHECK(range_of_key("/p/map", false) == R"({"key":"L3AvbWFw","keys_only":true})");
  CHECK(range_of_prefix("/p/", 7) == R"({"key":"L3Av","limit":"7","range_end":"L3Aw"})");
  CHECK(put("/p/x", "v", 0) == R"({"key":"L3AveA==","value":"dg=="})");
  CHECK(put("/p/x", "v", 9) == R"({"key":"L3AveA==","lease":"9","value":"dg=="})");
  Row expected;
  expected.key = "/p/map";
  expected.mod_revision = 5;
  expected.create_revision = 3;
  expected.version = 2;
  CHECK(
      put_if_same(expected, "v", 0) ==
      R"({"compare":[{"create_revision":"3","key":"L3AvbWFw","result":"EQUAL","target":"CREATE"},)"
      R"({"key":"L3AvbWFw","mod_revision":"5","result":"EQUAL","target":"MOD"},)"
      R"({"key":"L3AvbWFw","result":"EQUAL","target":"VERSION","version":"2"}],)"
      R"("failure":[{"request_range":{"key":"L3AvbWFw"}}],)"
      R"("success":[{"request_put":{"key":"L3AvbWFw","value":"dg=="}}]})");
  CHECK(lease_grant(10) == R"({"TTL":"10"})");
  CHECK(lease_of(12) == R"({"ID":"12"})");
  CHECK(watch_key("/p/map", 8) ==
        R"({"create_request":{"key":"L3AvbWFw","progress_notify":true,"start_revision":"8"}})");
  CHECK(authenticate("a\"b", "c") == R"({"name":"a\"b","password":"c"})");
}

TEST_CASE("answers of etcd are understood") {
  const auto none = decode_range("{" + kHeader + "}");
  REQUIRE(none);
  CHECK(none->rows.empty());
  CHECK(none->revision == 2);
  CHECK(none->cluster == "12101053776118486841");
  const std::string row =
      R"({"key":"L3AvbWFw","create_revision":"2","mod_revision":"4","version":"3",)"
      R"("value":"aGVsbG8=",)"
      R"("lease":"9041998838680456713"})";
  const auto one = decode_range("{" + kHeader + R"(,"kvs":[)" + row + R"(],"count":"1"})");
  REQUIRE(one);
  CHECK(one->rows == std::vector<Row>{{"/p/map", "hello", 2, 4, 3, 9041998838680456713}});
  // What failed is left out.
  const auto failed = decode_txn("{" + kHeader + R"(,"responses":[{"response_range":{"header":)" +
                                 R"({"revision":"2"},"kvs":[)" + row + R"(],"count":"1"}}]})");
  REQUIRE(failed);
  CHECK(!failed->succeeded);
  CHECK(failed->rows == one->rows);
  const auto done = decode_txn("{" + kHeader + R"(,"succeeded":true,"responses":[)" +
                               R"({"response_put":{"header":{"revision":"2"}}}]})");
  REQUIRE(done);
  CHECK(done->succeeded);
  CHECK(done->revision == 2);
  CHECK(*decode_lease("{" + kHeader + R"(,"ID":"9041998838680456713","TTL":"10"})") ==
        9041998838680456713);
  CHECK(*decode_keep_alive(R"({"result":{)" + kHeader + R"(,"ID":"12345","TTL":"10"}})") == 10);
  CHECK(*decode_keep_alive(R"({"result":{)" + kHeader + R"(,"ID":"12345"}})") == 0);
  CHECK(*decode_token("{" + kHeader + R"(,"token":"x.y"})") == "x.y");
  const auto begun = decode_watch_line(R"({"result":{)" + kHeader + R"(,"created":true}})");
  REQUIRE(begun);
  CHECK(begun->events == 0);
  CHECK(begun->revision == 2);
  const auto event =
      decode_watch_line(R"({"result":{)" + kHeader + R"(,"events":[{"kv":)" + row + "}]}}");
  REQUIRE(event);
  CHECK(event->events == 1);
  const auto gone = decode_watch_line(R"({"result":{)" + kHeader +
                                      R"(,"canceled":true,"compact_revision":"7"}})");
  REQUIRE(gone);
  CHECK(gone->canceled);
  CHECK(gone->compact_revision == 7);
}

TEST_CASE("a refusal tells whether it may have been done") {
  struct Case {
    unsigned status;
    std::string body;
    Errc code;
    bool unknown;
    bool login;
  };
  for (const Case& row :
       {Case{404, R"({"error":"etcdserver: requested lease not found","code":5})", Errc::not_found,
             false, false},
        Case{400, R"({"error":"invalid character","message":"invalid character","code":3})",
             Errc::invalid, false, false},
        Case{429, R"({"message":"trying to send message larger than max","code":8})", Errc::full,
             false, false},
        Case{401, R"({"message":"etcdserver: invalid auth token","code":16})", Errc::invalid, false,
             true},
        Case{503, R"({"message":"etcdserver: no leader","code":14})", Errc::unavailable, true,
             false},
        Case{502, "<html>", Errc::unavailable, true, false},
        Case{500, "", Errc::unavailable, true, false}}) {
    CAPTURE(row.body);
    const Refusal refusal = decode_refusal(row.status, row.body);
    CHECK(refusal.error.code == row.code);
    CHECK(refusal.unknown == row.unknown);
    CHECK(refusal.wants_login == row.login);
  }
  CHECK(decode_refusal(404, R"({"message":"what"})").error.context == "etcd: status 404: what");
}

TEST_CASE("answers that make no sense are refused") {
  for (const std::string& body :
       {std::string(), std::string("null"), std::string("[]"), std::string("{}"),
        std::string("{\"header\":1}"), "{" + kHeader, "{" + kHeader + R"(,"kvs":{}})",
        "{" + kHeader + R"(,"kvs":[1]})", "{" + kHeader + R"(,"kvs":[{}]})",
        "{" + kHeader + R"(,"kvs":[{"key":"?","mod_revision":"1"}]})",
        "{" + kHeader + R"(,"kvs":[{"key":"YQ==","mod_revision":"99999999999999999999"}]})",
        "{" + kHeader + R"(,"kvs":[{"key":"YQ==","mod_revision":"1x"}]})",
        "{" + kHeader + R"(,"kvs":[{"key":"YQ==","mod_revision":"1","value":7}]})"}) {
    CAPTURE(body);
    CHECK(code_of(decode_range(body)) == Errc::corrupt);
  }
  CHECK(code_of(decode_txn("{" + kHeader + R"(,"succeeded":"yes"})")) == Errc::corrupt);
  CHECK(code_of(decode_txn("{" + kHeader + R"(,"responses":7})")) == Errc::corrupt);
  CHECK(code_of(decode_lease("{" + kHeader + "}")) == Errc::corrupt);
  CHECK(code_of(decode_keep_alive("{" + kHeader + "}")) == Errc::corrupt);
  CHECK(code_of(decode_watch_line(R"({"error":{}})")) == Errc::corrupt);
  CHECK(code_of(decode_watch_line(R"({"result":{"events":{}}})")) == Errc::corrupt);
  CHECK(code_of(decode_token("{" + kHeader + "}")) == Errc::corrupt);
}

TEST_CASE("damaged answers end no process") {
  SeededRandom random(7);
  const std::string sound = "{" + kHeader +
                            R"(,"succeeded":true,"responses":[{"response_range":{"kvs":[{"key":)"
                            R"("L3AvbWFw","create_revision":"2","mod_revision":"4",)"
                            R"("value":"YQ=="}]}}],)"
                            R"("result":{"TTL":"10","events":[{"kv":{}}]},"ID":"5","code":14})";
  for (int turn = 0; turn < 5000; ++turn) {
    std::string body = sound;
    for (std::uint64_t i = random.next() % 4; i-- > 0;) {
      body[random.next() % body.size()] = static_cast<char>(random.next());
    }
    if (random.next() % 3 == 0) body.resize(random.next() % body.size());
    (void)decode_range(body).has_value();
    (void)decode_txn(body).has_value();
    (void)decode_lease(body).has_value();
    (void)decode_keep_alive(body).has_value();
    (void)decode_watch_line(body).has_value();
    (void)decode_refusal(500, body);
  }
}

TEST_CASE("lines are cut out of any pieces, and none may be too long") {
  const std::string stream = "{\"a\":1}\n\r\n{\"b\":2}\n{\"c\"";
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    Lines lines(64);
    std::vector<std::string> taken;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      REQUIRE(lines.add(std::string_view(stream).substr(at, step)));
      while (auto line = lines.take()) taken.push_back(std::move(*line));
    }
    CHECK(taken == std::vector<std::string>{"{\"a\":1}", "{\"b\":2}"});
  }
  Lines lines(8);
  CHECK(lines.add("12345678"));
  CHECK(code_of(lines.add("9")) == Errc::corrupt);
}

}  // namespace penstock::etcd
