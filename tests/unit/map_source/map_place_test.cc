#include "server/map_source/map_place.h"

#include <doctest/doctest.h>

#include "tests/fake/code_of.h"

namespace penstock {
namespace {
const ClusterId kCluster{0x1122334455667788ull, 0x99aabbccddeeff00ull};
const std::string kId = "112233445566778899aabbccddeeff00";
}  // namespace

TEST_CASE("a map source is a file or etcd") {
  CHECK(parse_map_place("map.json", kCluster)->file == "map.json");
  CHECK(parse_map_place("file:/etc/a:b", kCluster)->file == "/etc/a:b");
  CHECK(parse_map_place("file:/etc/a", kCluster)->text == "file:/etc/a");
  const auto one = parse_map_place("etcd://127.0.0.1:2379/" + kId, kCluster);
  REQUIRE(one);
  CHECK(one->file.empty());
  CHECK(one->endpoints == std::vector<EtcdEndpoint>{{"127.0.0.1", 2379}});
  const auto more = parse_map_place("etcd://me:p@ss@e1:1,[::1]:2,e3:3/" + kId, kCluster);
  REQUIRE(more);
  CHECK(more->endpoints == std::vector<EtcdEndpoint>{{"e1", 1}, {"::1", 2}, {"e3", 3}});
  CHECK(more->user == "me");
  CHECK(more->password == "p@ss");
  CHECK(more->text == "etcd://e1:1,[::1]:2,e3:3/" + kId);
}

TEST_CASE("etcd by TLS, with files or without") {
  const auto bare = parse_map_place("etcds://e1:1/" + kId, kCluster);
  REQUIRE(bare);
  CHECK(bare->tls);
  CHECK(bare->tls_files.authorities.empty());
  CHECK(bare->text == "etcds://e1:1/" + kId);
  const auto whole = parse_map_place(
      "etcds://me:word@e1:1,e2:2/" + kId + "?key=/etc/k.pem&ca=/etc/ca.pem&cert=/etc/c.pem",
      kCluster);
  REQUIRE(whole);
  CHECK(whole->endpoints.size() == 2);
  CHECK(whole->user == "me");
  CHECK(whole->tls_files.authorities == "/etc/ca.pem");
  CHECK(whole->tls_files.certificate == "/etc/c.pem");
  CHECK(whole->tls_files.key == "/etc/k.pem");
  CHECK(whole->text == "etcds://e1:1,e2:2/" + kId);
  CHECK_FALSE(parse_map_place("etcd://e1:1/" + kId, kCluster)->tls);
  for (const char* words : {"?ca=", "?ca", "?cert=/c", "?key=/k", "?ca=a&ca=b", "?colour=red"}) {
    CAPTURE(words);
    CHECK(code_of(parse_map_place("etcds://e1:1/" + kId + words, kCluster)) == Errc::invalid);
  }
  CHECK(code_of(parse_map_place("etcd://e1:1/" + kId + "?ca=/a", kCluster)) == Errc::invalid);
}

TEST_CASE("a password is in no text that says what is wrong") {
  for (const std::string& text :
       {"http://me:s3cret@a:1/" + kId, std::string("etcd://me:s3cret@a:1"),
        "etcd://me:s3cret@a/" + kId, "etcd://me:s3@cret@a:0/" + kId,
        "etcd://me:s3cret@a:1/" + kId + "0"}) {
    CAPTURE(text);
    const auto place = parse_map_place(text, kCluster);
    REQUIRE(!place);
    CHECK(place.error().context.find("s3") == std::string::npos);
  }
}

TEST_CASE("what names no map source is refused") {
  std::string many = "etcd://e:1";
  for (int i = 0; i < 16; ++i) many += ",e:1";
  for (const std::string& text :
       {std::string(), std::string("file:"), std::string("http://a:1/") + kId, "etcd://" + kId,
        "etcd:///" + kId, "etcd://host/" + kId, "etcd://host:0/" + kId, "etcd://host:65536/" + kId,
        "etcd://:1/" + kId, "etcd://a:1,/" + kId, "etcd://a b:c:1/" + kId, "etcd://user@a:1/" + kId,
        std::string("etcd://a:1/"), std::string("etcd://a:1"), "etcd://a:1/" + std::string(32, '0'),
        "etcd://a:1/" + kId + "0", many + "/" + kId}) {
    CAPTURE(text);
    CHECK(code_of(parse_map_place(text, kCluster)) == Errc::invalid);
  }
}

}  // namespace penstock
