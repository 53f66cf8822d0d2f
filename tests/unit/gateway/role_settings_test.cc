#include "gateway/role_settings.h"

#include <doctest/doctest.h>

#include "gateway/local_config.h"

namespace penstock {
namespace {

using Texts = std::vector<std::string>;

RoleSettings settings() {
  const auto config = parse_local_config(R"({
    "listen":"10.0.0.1:9200", "admin_listen":"10.0.0.1:9300", "directories":["/d1","/d2"],
    "credentials":"/accounts", "key":"/key", "tls_cert":"/cert", "tls_key":"/cert-key",
    "tls_ca":"/ca", "map":"/map", "address":"a:1", "host":"h", "zone":"z", "peers":["p:1","p:2"],
    "servers":["s:1"]})");
  REQUIRE(config);
  return config->role;
}

std::string refusal(const Result<>& answer) {
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == Errc::invalid);
  return answer.error().context;
}

}  // namespace

TEST_CASE("a server takes from its file what nobody said before") {
  ServerArguments arguments;
  REQUIRE(take_settings(settings(), arguments));
  CHECK(arguments.listen == "10.0.0.1:9200");
  CHECK(arguments.admin_listen == "10.0.0.1:9300");
  CHECK(arguments.directories == Texts{"/d1", "/d2"});
  CHECK(arguments.trust.key_file == "/key");
  CHECK(arguments.trust.tls_certificate == "/cert");
  CHECK(arguments.trust.tls_key == "/cert-key");
  CHECK(arguments.trust.tls_authorities == "/ca");
  CHECK(arguments.map == "/map");
  CHECK(arguments.address == "a:1");
  CHECK(arguments.host == "h");
  CHECK(arguments.zone == "z");
  CHECK(arguments.peers == Texts{"p:1", "p:2"});
}

TEST_CASE("what was said before counts more than the file") {
  ServerArguments server;
  server.listen = "127.0.0.1:1";
  server.directories = {"/mine"};
  server.peers = {"q:1"};
  server.trust.key_file = "/other";
  REQUIRE(take_settings(settings(), server));
  CHECK(server.listen == "127.0.0.1:1");
  CHECK(server.directories == Texts{"/mine"});
  CHECK(server.peers == Texts{"q:1"});
  CHECK(server.trust.key_file == "/other");
  GatewayArguments gateway;
  gateway.map = "/mine";
  REQUIRE(take_settings(settings(), gateway));
  CHECK(gateway.map == "/mine");
  CHECK(gateway.servers == Texts{"s:1"});
  CHECK(gateway.credentials_file == "/accounts");
  LocalArguments local;
  local.credentials_file = "/mine";
  REQUIRE(take_settings(settings(), local));
  CHECK(local.credentials_file == "/mine");
  CHECK(local.listen == "10.0.0.1:9200");
}

TEST_CASE("without either, each role listens where it always did") {
  RoleSettings little;
  little.directories = {"/d"};
  little.key = "/key";
  little.map = "/map";
  little.credentials = "/accounts";
  LocalArguments local;
  ServerArguments server;
  GatewayArguments gateway;
  REQUIRE(take_settings(little, local));
  REQUIRE(take_settings(little, server));
  REQUIRE(take_settings(little, gateway));
  CHECK(local.listen == "127.0.0.1:9000");
  CHECK(server.listen == "127.0.0.1:9200");
  CHECK(gateway.listen == "127.0.0.1:9000");
}

TEST_CASE("what is needed and said nowhere is named") {
  const auto of_server = [](auto change) {
    RoleSettings file = settings();
    change(file);
    ServerArguments arguments;
    return refusal(take_settings(file, arguments));
  };
  const auto of_gateway = [](auto change) {
    RoleSettings file = settings();
    change(file);
    GatewayArguments arguments;
    return refusal(take_settings(file, arguments));
  };
  CHECK(of_server([](RoleSettings& file) { file.directories.clear(); }) == "DIR is required");
  CHECK(of_server([](RoleSettings& file) {
          file.key = file.tls_cert = file.tls_key = file.tls_ca = "";
        }).starts_with("--key is required"));
  CHECK(of_server([](RoleSettings& file) { file.tls_ca = ""; }).find("all are needed") !=
        std::string::npos);
  CHECK(of_gateway([](RoleSettings& file) { file.credentials = ""; }) ==
        "--credentials is required");
  CHECK(of_gateway([](RoleSettings& file) {
          file.map = "";
          file.servers.clear();
        }) == "--map or --servers is required");
  LocalArguments local;
  CHECK(refusal(take_settings(RoleSettings{}, local)) == "DIR is required");
}

}  // namespace penstock
