#include "gateway/local_config.h"

#include <doctest/doctest.h>

#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace penstock {
namespace {

TEST_CASE("an empty configuration is all defaults") {
  const auto config = parse_local_config("{}");
  REQUIRE(config);
  CHECK(config->gateway.region == "us-east-1");
  CHECK(config->memory == 0);
  CHECK_FALSE(config->has_policy);
}

TEST_CASE("values are taken over") {
  const auto config = parse_local_config(
      R"({"region":"eu-1","domains":["a.test"],"io_threads":3,"layout":{"unit_bytes":65536}})");
  REQUIRE(config);
  CHECK(config->gateway.region == "eu-1");
  CHECK(config->gateway.domains == std::vector<std::string>{"a.test"});
  CHECK(config->io_threads == 3);
  CHECK(config->has_policy);
  CHECK(config->policy.unit_bytes == 65536);
}

// Comments are passed over.
nlohmann::json example(const std::string& role) {
  std::ifstream file("conf/" + role + ".json");
  auto document = nlohmann::json::parse(file, nullptr, false, true);
  REQUIRE(document.is_object());
  return document;
}

nlohmann::json without(nlohmann::json document, std::initializer_list<const char*> keys) {
  for (const char* key : keys) REQUIRE(document.erase(key) == 1);
  return document;
}

TEST_CASE("the example files list each key that counts, with its default, and no other") {
  auto all = nlohmann::json::parse(default_config());
  all["listen"] = "127.0.0.1:9000";  // each role has its own
  CHECK(example("local") == without(all, {"key", "tls_cert", "tls_key", "tls_ca", "map", "address",
                                          "host", "zone", "peers", "servers"}));
  auto server = all;
  server["listen"] = "127.0.0.1:9200";
  CHECK(example("server") ==
        without(server, {"credentials", "servers", "region", "strict_region", "domains",
                         "signature_v2", "access_log", "connections_max",
                         "connections_per_address_max", "reader_pause_seconds", "sendfile"}));
  auto gateway = without(all, {"directories", "address", "host", "zone", "peers",
                               "free_space_min_bytes", "free_space_min_percent", "ballast_bytes",
                               "disk_call_max_seconds", "read_on_caller", "sendfile"});
  gateway["removal"] = {{"hint_delay_seconds", all["removal"]["hint_delay_seconds"]},
                        {"lease_seconds", all["removal"]["lease_seconds"]}};
  CHECK(example("gateway") == gateway);
  for (const char* role : {"local", "server", "gateway"}) {
    std::ifstream file("conf/" + std::string(role) + ".json");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto parsed = parse_local_config(text);
    REQUIRE(parsed);
    if (role == std::string("local")) continue;
    CHECK(parsed->role.listen == example(role)["listen"]);
  }
}

TEST_CASE("what is wrong is named") {
  const struct {
    const char* json;
    const char* named;
  } cases[] = {
      {"[]", "JSON"},
      {"{", "JSON"},
      {R"({"regio":"x"})", "regio"},
      {R"({"region":1})", "region"},
      {R"({"io_threads":-1})", "io_threads"},
      {R"({"io_threads":1000})", "io_threads"},
      {R"({"domains":"x"})", "domains"},
      {R"({"reader_pause_seconds":0})", "reader_pause_seconds"},
      {R"({"connections_per_address_max":1000001})", "connections_per_address_max"},
      {R"({"layout":{"kk":1}})", "layout.kk"},
      {R"({"layout":3})", "layout"},
      {R"({"strict_region":"yes"})", "strict_region"},
      {R"({"signature_v2":1})", "signature_v2"},
      {R"({"access_log":true})", "access_log"},
      {R"({"region":""})", "us-east-1"},
      {R"({"region":"a","region":"b"})", "\"region\" is there twice"},
      {R"({"layout":{"k":1,"m":1,"k":2}})", "\"k\" is there twice"},
      {R"({"free_space_min_bytes":-1})", "from 0 to"},
      {R"({"free_space_min_bytes":1.5})", "whole number"},
      {R"({"free_space_min_percent":51})", "from 0 to 50"},
      {R"({"region":"eu/1"})", "region"},
      {R"({"region":"eu 1"})", "region"},
      {R"({"domains":["a.test",""]})", "domains"},
      {R"({"listen":9000})", "listen"},
      {R"({"peers":"10.0.0.1:9200"})", "peers"},
  };
  for (const auto& [json, named] : cases) {
    CAPTURE(json);
    const auto config = parse_local_config(json);
    REQUIRE_FALSE(config);
    CHECK(config.error().context.find(named) != std::string::npos);
  }
}

}  // namespace
}  // namespace penstock
