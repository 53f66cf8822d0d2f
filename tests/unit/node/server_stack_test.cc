#include "server/node/server_stack.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>

#include "server/node/start_notes.h"
#include "tests/fake/code_of.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using State = VolumeStatus::State;

struct TestStore {
  TestStore() { REQUIRE(::mkdtemp(above.data()) != nullptr); }
  ~TestStore() { fs::remove_all(above); }
  std::string base() const { return above + "/store"; }

  std::unique_ptr<ServerStack> make() const {
    fs::create_directory(base());
    ServerOptions options;
    options.process.idle_buffer_bytes = limits::kMiB;
    options.store.directories = {base()};
    options.store.volumes = 3;
    options.store.boot_id = "one boot";
    options.store.volume.fragments.segment_bytes = 128 * limits::kKiB;
    options.store.volume.space.reserve_bytes = 0;
    options.store.volume.space.reserve_fraction = 0;
    options.store.volume.space.ballast_bytes = 16 * limits::kKiB;
    return std::make_unique<ServerStack>(std::move(options));
  }
  // Started, seen, and closed.
  void run() const {
    const auto server = make();
    CHECK(server->start());
    CHECK(server->close(std::chrono::seconds(30)) == 0);
  }

  std::string above = (fs::temp_directory_path() / "server-XXXXXX").string();
};

std::string states_of(ServerStack& server) {
  std::string text;
  for (const auto& volume : server.volumes().states()) {
    text += volume.name + " " + std::string(state_name(volume.status.state)) + ";";
  }
  return text;
}

// The thread that counts must not be the last who holds the volume: whoever is told may end the
// clock, the workers and all else that a volume stands on.
TEST_CASE("Who is told that a start is counted holds the volume alone") {
  const TestStore store;
  const auto server = store.make();
  REQUIRE(server->start());
  const auto volume = server->volumes().slots().front()->volume;
  const long holders = volume.use_count();
  for (int i = 0; i < 60; ++i) {
    REQUIRE(StartNotes::count_start(volume));
    REQUIRE(volume.use_count() <= holders);
  }
}

TEST_CASE("A store is formatted by its first start and found again by the next") {
  const TestStore store;
  std::vector<ClusterId> clusters;
  for (const bool first : {true, false}) {
    const auto server = store.make();
    CHECK(server->volumes().map() == nullptr);
    REQUIRE(server->start());
    CHECK(server->was_formatted() == first);
    CHECK(states_of(*server) == "v0 open;v1 open;v2 open;");
    CHECK(server->volumes().clients().size() == 3);
    clusters.push_back(server->volumes().map()->cluster);
    server->begin_watch();
    server->end_watch();
    CHECK(server->close(std::chrono::seconds(30)) == 0);
    CHECK(server->close(std::chrono::seconds(30)) == 0);
  }
  CHECK(clusters[0] == clusters[1]);
}

TEST_CASE("A volume whose directory is empty is missing, and below a majority nothing starts") {
  const TestStore store;
  store.run();
  fs::remove_all(store.base() + "/v1");
  {
    const auto server = store.make();
    REQUIRE(server->start());
    CHECK(!server->was_formatted());
    CHECK(states_of(*server) == "v0 open;v1 missing;v2 open;");
  }
  fs::remove_all(store.base() + "/v2");
  const auto server = store.make();
  CHECK(code_of(server->start()) == Errc::corrupt);
  CHECK(server->volumes().states().empty());
  CHECK(server->close(std::chrono::seconds(30)) == 0);
}

TEST_CASE("A volume that comes back as an old copy is refused, and again at the next start") {
  const TestStore store;
  store.run();
  fs::copy(store.base() + "/v1", store.above + "/copy", fs::copy_options::recursive);
  store.run();
  fs::remove_all(store.base() + "/v1");
  fs::rename(store.above + "/copy", store.base() + "/v1");
  for (int start = 0; start < 2; ++start) {
    const auto server = store.make();
    REQUIRE(server->start());
    CHECK(states_of(*server) == "v0 open;v1 closed;v2 open;");
    CHECK(server->volumes().states()[1].status.reason ==
          "it is an old copy: this would be its start number 2, but v0 has seen number 2");
  }
}

TEST_CASE("A volume that is prepared and never joins is given again, and no start takes it in") {
  const TestStore store;
  const std::string place = store.above + "/new";
  {
    const auto server = store.make();
    REQUIRE(server->start());
    const auto first = server->new_volume().prepare(place);
    REQUIRE(first);
    CHECK(first->entry.name == "v3");
    CHECK(server->volumes().client(first->entry.id) == first->client);
    CHECK(server->volumes().map()->find(first->entry.id) == nullptr);
    CHECK(states_of(*server) == "v0 open;v1 open;v2 open;v3 open;");
    const auto again = server->new_volume().prepare(place);
    REQUIRE(again);
    CHECK(again->entry.id == first->entry.id);
    CHECK(code_of(server->new_volume().prepare(store.base() + "/v0")) == Errc::invalid);
  }
  const auto server = store.make();
  REQUIRE(server->start());
  CHECK(states_of(*server) == "v0 open;v1 open;v2 open;");
}

TEST_CASE("A directory that another process uses is waited for, then left out") {
  const TestStore store;
  const auto other = store.make();
  REQUIRE(other->start());
  const auto server = store.make();
  CHECK(code_of(server->start()) == Errc::busy);
}

// A server of a cluster, with two directories.
struct TestServer : TestStore {
  std::unique_ptr<ServerStack> make_member(bool format, ClusterId cluster = ClusterId{1, 2}) const {
    fs::create_directory(base());
    ServerOptions options;
    options.process.idle_buffer_bytes = limits::kMiB;
    options.store.directories = {base() + "/a", base() + "/b"};
    options.store.format = format;
    options.store.volume.fragments.segment_bytes = 128 * limits::kKiB;
    options.store.volume.space.reserve_bytes = 0;
    options.store.volume.space.reserve_fraction = 0;
    options.store.volume.space.ballast_bytes = 16 * limits::kKiB;
    options.member_of = cluster;
    return std::make_unique<ServerStack>(std::move(options));
  }
};

std::vector<VolumeStatus> statuses_of(ServerStack& server) {
  std::vector<VolumeStatus> all;
  for (const auto& volume : server.volumes().states()) all.push_back(volume.status);
  return all;
}

TEST_CASE(
    "A server starts with any of its volumes, also if none can be opened, and keeps the why") {
  const TestServer store;
  {
    const auto server = store.make_member(true);
    REQUIRE(server->start());
    CHECK(server->volumes().clients().size() == 2);
    CHECK(server->close(std::chrono::seconds(30)) == 0);
  }
  for (std::size_t damaged = 1; damaged <= 2; ++damaged) {
    fs::resize_file(store.base() + (damaged == 1 ? "/a" : "/b") + "/db/CURRENT", 0);
    const auto server = store.make_member(false);
    REQUIRE(server->start());
    CHECK(server->volumes().clients().size() == 2 - damaged);
    const auto statuses = statuses_of(*server);
    REQUIRE(statuses.size() == 2);
    CHECK(statuses[0].state == State::closed);
    CHECK(statuses[0].reason.find("start the server again") != std::string::npos);
    CHECK(server->close(std::chrono::seconds(30)) == 0);
  }
}

TEST_CASE("A server without a volume, or whose volumes another process holds, does not start") {
  const TestServer store;
  const auto nothing = store.make_member(false);
  CHECK(code_of(nothing->start()) == Errc::not_found);
  const auto first = store.make_member(true);
  REQUIRE(first->start());
  const auto second = store.make_member(false);
  CHECK(code_of(second->start()) == Errc::not_found);
  CHECK(first->close(std::chrono::seconds(30)) == 0);
  const auto other = store.make_member(false, ClusterId{3, 4});
  CHECK(code_of(other->start()) == Errc::invalid);
}

}  // namespace
}  // namespace penstock
