#include "gateway/cluster_file.h"

#include <doctest/doctest.h>

#include "tests/fake/code_of.h"

namespace penstock {
namespace {

constexpr const char* kJson = R"({"key":"cluster.key","map":"file:map.json",)"
                              R"("servers":[{"address":"a:1"},{"address":"b:2"}]})";

TEST_CASE("cluster.json says key, map and servers; paths are beside it") {
  const ReachArguments reach = complete_from_json({}, kJson, "/c").value();
  CHECK(reach.trust.key_file == "/c/cluster.key");
  CHECK(reach.map == "file:/c/map.json");
  CHECK(reach.servers == std::vector<std::string>{"a:1", "b:2"});
  const auto etcd = complete_from_json({}, R"({"key":"/k","map":"etcd://h:1/id"})", "/c").value();
  CHECK(etcd.map == "etcd://h:1/id");
  CHECK(etcd.trust.key_file == "/k");
}

TEST_CASE("what the command line says counts") {
  ReachArguments given;
  given.servers = {"x:9"};
  given.trust.key_file = "mine";
  const ReachArguments reach = complete_from_json(given, kJson, "/c").value();
  CHECK(reach.servers == std::vector<std::string>{"x:9"});
  CHECK(reach.map.empty());
  CHECK(reach.trust.key_file == "mine");
}

TEST_CASE("of a cluster with certificates a command has that of an admin") {
  const auto reach =
      complete_from_json({}, R"({"key":null,"tls":"/c/tls","map":"file:m"})", "/c").value();
  CHECK(reach.trust.key_file.empty());
  CHECK(reach.trust.tls_certificate == "/c/tls/admin.pem");
  CHECK(reach.trust.tls_key == "/c/tls/admin.key");
  CHECK(reach.trust.tls_authorities == "/c/tls/ca.pem");
}

TEST_CASE("what is missing is asked for") {
  CHECK(code_of(complete_reach({})) == Errc::invalid);
  ReachArguments no_key;
  no_key.servers = {"a:1"};
  CHECK(complete_reach(no_key).error().context.find("--key") != std::string::npos);
  ReachArguments nowhere;
  nowhere.directory = "/there/is/none";
  CHECK(code_of(complete_reach(nowhere)) == Errc::not_found);
  for (const char* text : {"", "[]", "nonsense"}) {
    CHECK(code_of(complete_from_json({}, text, "/c")) == Errc::invalid);
  }
  CHECK(complete_from_json({}, R"({"servers":[1,{}]})", "/c").value().servers.empty());
}

}  // namespace
}  // namespace penstock
