#include "gateway/local_arguments.h"

#include <doctest/doctest.h>

#include "gateway/command_line.h"

namespace penstock {
namespace {

TEST_CASE("an endpoint is an address and a port") {
  const struct {
    const char* text;
    const char* address;
    std::uint16_t port;
    const char* shown;
  } rows[] = {
      {"127.0.0.1:9000", "127.0.0.1", 9000, "127.0.0.1:9000"},
      {":65535", "0.0.0.0", 65535, "0.0.0.0:65535"},
      {"[::1]:0", "::1", 0, "[::1]:0"},
      {"[::]:80", "::", 80, "[::]:80"},
      {"localhost:80", "127.0.0.1", 80, "127.0.0.1:80"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    const auto endpoint = parse_endpoint(row.text, "--listen");
    REQUIRE(endpoint);
    CHECK(endpoint->address == row.address);
    CHECK(endpoint->port == row.port);
    CHECK(endpoint_text(endpoint->address, endpoint->port) == row.shown);
  }
  for (const char* text : {"", ":", "9000", "1.2.3.4", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:65536",
                           "1.2.3.4:-1", "1.2.3.4:+1", "1.2.3.4: 1", "::1:80", "[1.2.3.4]:80",
                           "[]:80", "[::1]", "name:80", "1.2.3:80", "1.2.3.4:99999999999999999"}) {
    CAPTURE(text);
    const auto endpoint = parse_endpoint(text, "--listen");
    REQUIRE_FALSE(endpoint);
    CHECK(endpoint.error().context.find("--listen") != std::string::npos);
  }
}

TEST_CASE("where others are to reach a server stands an address and a port, not a name") {
  for (const char* text : {"10.0.0.1:9200", "127.0.0.1:1", "[fe80::1]:9200"}) {
    CAPTURE(text);
    CHECK(check_reachable(text, "--address"));
  }
  for (const char* text : {"10.0.0.1", "s1.example:9200", "localhost:9200", ":9200", "0.0.0.0:9200",
                           "[::]:9200", "10.0.0.1:0", "10.0.0.1:09200", "fe80::1:9200", ""}) {
    CAPTURE(text);
    const auto checked = check_reachable(text, "--address");
    REQUIRE(!checked);
    CHECK(checked.error().code == Errc::invalid);
    CHECK(checked.error().context.find("--address") != std::string::npos);
  }
}

TEST_CASE("the admin port follows the S3 port, unless there is none or it is given") {
  LocalArguments arguments;
  arguments.listen = "127.0.0.1:9000";
  CHECK(read_endpoints(*arguments.listen, arguments.admin_listen)->admin.port == 9001);
  arguments.listen = "[::1]:0";
  CHECK(read_endpoints(*arguments.listen, arguments.admin_listen)->admin.port == 0);
  CHECK(read_endpoints(*arguments.listen, arguments.admin_listen)->admin.address == "::1");
  arguments.listen = ":65535";
  REQUIRE_FALSE(read_endpoints(*arguments.listen, arguments.admin_listen));
  CHECK(read_endpoints(*arguments.listen, arguments.admin_listen)
            .error()
            .context.find("--admin-listen") != std::string::npos);
  arguments.admin_listen = "127.0.0.1:9001";
  CHECK(read_endpoints(*arguments.listen, arguments.admin_listen)->admin.port == 9001);
  arguments.listen = "127.0.0.1:9001";
  CHECK_FALSE(read_endpoints(*arguments.listen, arguments.admin_listen));
}

ParsedCommandLine parse(std::vector<const char*> words) {
  words.insert(words.begin(), "penstock");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

TEST_CASE("a command line becomes a command, or a code") {
  const auto local = parse({"local", "--format", "--access-log", "stdout", "/a", "/b"});
  REQUIRE(local.command);
  CHECK(local.command->local.format);
  CHECK(local.command->local.access_log == "stdout");
  CHECK(local.command->local.directories == std::vector<std::string>{"/a", "/b"});
  CHECK_FALSE(parse({"local", "/a"}).command->local.format);
  const auto replace = parse({"ring", "replace", "/a", "--volume", "v1", "--with=/n"});
  REQUIRE(replace.command);
  CHECK(replace.command->command == CommandLine::Command::ring_replace);
  CHECK(replace.command->ring.with == "/n");
  for (const std::vector<const char*>& words :
       std::vector<std::vector<const char*>>{{},
                                             {"bogus"},
                                             {"local"},
                                             {"local", "--bogus", "/a"},
                                             {"local", "--listen"},
                                             {"ring"},
                                             {"ring", "bogus"},
                                             {"ring", "replace", "/a"}}) {
    const auto wrong = parse(words);
    CHECK_FALSE(wrong.command);
    CHECK(wrong.exit_code == kUsageError);
  }
}

}  // namespace
}  // namespace penstock
