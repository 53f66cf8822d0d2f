#include "gateway/server_description.h"

#include <doctest/doctest.h>

#include "tests/fake/code_of.h"

namespace penstock {
namespace {

ServerDescription described() {
  ServerDescription server;
  server.version = "1.2";
  server.host = "rack-3";
  server.zone = "z1";
  server.wall = WallTime(Duration(1'700'000'000'123'456));
  server.runs_for = std::chrono::seconds(5);
  server.leaving = true;
  server.epoch = Epoch{7};
  server.digest = "00ff";
  VolumeStatus status;
  status.state = VolumeStatus::State::closed;
  status.reason = "its disk hangs";
  status.free_bytes = 5;
  status.total_bytes = 9;
  status.fragment_count = 3;
  status.fragment_bytes = 4;
  status.full = true;
  server.volumes.push_back({VolumeId{0xfedcba9876543210}, "/mnt/\xff", status, 12});
  server.jobs.push_back({"hints", true, 3, 10, 1.5, std::chrono::seconds(2)});
  server.suspects = {"v3"};
  server.apart = {"v4", "v5"};
  server.gateways.push_back({"10.0.0.9:9000", "10.0.0.9", Epoch{6}, std::chrono::seconds(8)});
  return server;
}

TEST_CASE("what a server says of itself survives its text") {
  const auto read = read_description(description_text(described()));
  REQUIRE(read);
  CHECK(read->version == "1.2");
  CHECK(read->host == "rack-3");
  CHECK(read->zone == "z1");
  CHECK(read->wall == described().wall);
  CHECK(read->runs_for == described().runs_for);
  CHECK(read->leaving);
  CHECK(read->epoch == Epoch{7});
  CHECK(read->digest == "00ff");
  REQUIRE(read->volumes.size() == 1);
  CHECK(read->volumes[0].id == VolumeId{0xfedcba9876543210});
  CHECK(read->volumes[0].status.state == VolumeStatus::State::closed);
  CHECK(read->volumes[0].status.reason == "its disk hangs");
  CHECK(read->volumes[0].status.full);
  CHECK(read->volumes[0].status.fragment_bytes == 4);
  CHECK(read->volumes[0].damaged_reads == 12);
  REQUIRE(read->jobs.size() == 1);
  CHECK(read->jobs[0].what == "hints");
  CHECK(read->jobs[0].running);
  CHECK(read->jobs[0].total == 10);
  CHECK(read->jobs[0].per_second == 1.5);
  CHECK(read->jobs[0].since == std::chrono::seconds(2));
  REQUIRE(read->gateways.size() == 1);
  CHECK(read->gateways[0].name == "10.0.0.9:9000");
  CHECK(read->gateways[0].address == "10.0.0.9");
  CHECK(read->gateways[0].epoch == Epoch{6});
  CHECK(read->gateways[0].connected_for == std::chrono::seconds(8));
  CHECK(read->suspects == std::vector<std::string>{"v3"});
  CHECK(read->apart == std::vector<std::string>{"v4", "v5"});
}

TEST_CASE("unknown keys are passed over and those that lack are empty") {
  const auto read = read_description(R"({"zone":"z","colour":"red","volumes":[]})");
  REQUIRE(read);
  CHECK(read->zone == "z");
  CHECK(read->host.empty());
  CHECK(read->epoch.value == 0);
}

TEST_CASE("what makes no sense is corrupt") {
  for (const char* text :
       {"", "[]", "7", R"({"zone":1})", R"({"volumes":{}})", R"({"volumes":[{"id":"7"}]})",
        R"({"volumes":[3]})", R"({"jobs":[{"done":-1}]})", R"({"suspects":[1]})",
        R"({"apart":[1]})", R"({"gateways":[1]})", R"({"gateways":[{"epoch":-1}]})"}) {
    CAPTURE(text);
    CHECK(code_of(read_description(text)) == Errc::corrupt);
  }
}

}  // namespace
}  // namespace penstock
