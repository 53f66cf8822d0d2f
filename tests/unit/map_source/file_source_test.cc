#include "server/map_source/file_source.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <vector>

#include "penstock/wait_on.h"
#include "server/membership/map_vote.h"
#include "tests/fake/code_of.h"

namespace penstock {
namespace {

// A directory, and sources of a file in it, as processes of one machine have them.
struct FileHarness {
  static std::string make_directory() {
    std::string made = (std::filesystem::temp_directory_path() / "penstock-map-XXXXXX").string();
    REQUIRE(::mkdtemp(made.data()) != nullptr);
    return made;
  }
  ~FileHarness() { std::filesystem::remove_all(directory); }

  template <class T>
  Result<T> run(Task<T> task) {
    std::optional<Result<T>> answer;
    boost::asio::co_spawn(io, std::move(task), [&](std::exception_ptr failed, Result<T> result) {
      if (failed) std::rethrow_exception(failed);
      answer.emplace(std::move(result));
    });
    io.restart();
    io.run();
    return std::move(*answer);
  }
  Deadline soon() const { return clock.boot() + Duration(std::chrono::seconds(10)); }
  std::string path() const { return directory + "/map.json"; }
  std::shared_ptr<const ClusterMap> map(std::uint64_t epoch, ClusterId of = ClusterId{1, 2}) {
    std::vector<MapVolume> volumes(1);
    volumes[0].id = VolumeId{5};
    volumes[0].name = "v0";
    auto made = make_map(of, std::move(volumes), 4);
    REQUIRE(made);
    auto raised = past_epoch(std::move(*made), Epoch{epoch - 1});
    REQUIRE(raised);
    return std::make_shared<const ClusterMap>(std::move(*raised));
  }

  const std::string directory = make_directory();
  boost::asio::io_context io;
  RealClock clock;
  SystemRandom random;
  MapSourceParts parts{clock, random, ClusterId{1, 2}};
  FileSource source{path(), parts};
  FileSource other{path(), parts};
};

}  // namespace

TEST_CASE("of two who replace the map in a file one is told that it has changed") {
  FileHarness h;
  const auto none = h.run(h.source.read(h.soon()));
  REQUIRE(none);
  CHECK(none->map == nullptr);
  CHECK(none->revision.empty());
  const auto first = h.run(h.source.replace(h.map(1), none->revision, h.soon()));
  REQUIRE(first);
  CHECK(code_of(h.run(h.other.replace(h.map(2), none->revision, h.soon()))) == Errc::busy);
  const auto second = h.run(h.other.replace(h.map(3), *first, h.soon()));
  REQUIRE(second);
  const auto head = h.run(h.source.wait_for_change(*first, h.soon()));
  REQUIRE(head);
  CHECK(head->map->epoch == Epoch{3});
  CHECK(head->revision == *second);
  CHECK(code_of(h.run(h.source.wait_for_change(*second, h.clock.boot()))) == Errc::timeout);
}

TEST_CASE("a file that holds something else is told apart from none") {
  FileHarness h;
  for (const std::string& text : {std::string("{"), h.map(1, ClusterId{7, 7})->to_json()}) {
    std::ofstream(h.path()) << text;
    const auto damaged = h.run(h.source.read(h.soon()));
    REQUIRE(damaged);
    CHECK(damaged->map == nullptr);
    CHECK(damaged->unreadable.find(h.path()) != std::string::npos);
    CHECK(!damaged->revision.empty());
    std::ofstream(h.path()) << text + " ";  // another state of it
    CHECK(code_of(h.run(h.source.replace(h.map(1), damaged->revision, h.soon()))) == Errc::busy);
    CHECK(code_of(h.run(h.source.replace(h.map(1), "", h.soon()))) == Errc::busy);
    std::ofstream(h.path()) << text;
    CHECK(h.run(h.source.replace(h.map(1), damaged->revision, h.soon())));
    CHECK(h.run(h.source.read(h.soon()))->map != nullptr);
  }
  CHECK(code_of(h.run(h.source.replace(h.map(1, ClusterId{7, 7}), "", h.soon()))) == Errc::invalid);
  std::filesystem::remove(h.path());
  std::filesystem::create_directory(h.path());
  CHECK(code_of(h.run(h.source.read(h.soon()))) == Errc::unavailable);
}

// A file system that does not answer, until it does.
TEST_CASE(
    "a file system that hangs costs each call its deadline and no more, and the next nothing") {
  class HungWorker final : public Worker {
   public:
    explicit HungWorker(std::vector<std::function<void()>>& jobs) : jobs_(jobs) {}
    void submit(std::function<void()> job) override { jobs_.push_back(std::move(job)); }
    void abandon() override {}

   private:
    std::vector<std::function<void()>>& jobs_;
  };
  FileHarness h;
  std::vector<std::function<void()>> jobs;
  FileSource hung(h.path(), h.parts, std::make_unique<HungWorker>(jobs));
  const auto in_a_moment = [&h] {
    return h.clock.boot() + Duration(std::chrono::milliseconds(50));
  };
  const BootTime began = h.clock.boot();
  CHECK(code_of(h.run(hung.read(in_a_moment()))) == Errc::timeout);
  CHECK(code_of(h.run(hung.read(in_a_moment()))) == Errc::unavailable);
  CHECK(code_of(h.run(hung.wait_for_change("", h.soon()))) == Errc::unavailable);
  CHECK(code_of(h.run(hung.drive("who", h.soon()))) == Errc::unavailable);
  CHECK(code_of(h.run(hung.resign(h.soon()))) == Errc::unavailable);
  CHECK(code_of(h.run(hung.replace(h.map(1), "", h.soon()))) == Errc::unavailable);
  CHECK(h.clock.boot() < began + Duration(std::chrono::seconds(3)));
  REQUIRE(jobs.size() == 1);
  jobs.front()();
  CHECK(code_of(h.run(hung.replace(h.map(1), "", in_a_moment()))) == Errc::timeout);
  jobs.back()();
  CHECK(h.run(h.source.read(h.soon()))->map->epoch == Epoch{1});  // it was done, late
  CHECK(code_of(h.run(hung.drive("who", in_a_moment()))) == Errc::timeout);
}

TEST_CASE("one process drives the map of a file, until it resigns or ends") {
  FileHarness h;
  CHECK(h.run(h.source.drive("first", h.soon())));
  CHECK(h.run(h.source.drive("first", h.soon())));
  const auto refused = h.run(h.other.drive("second", h.soon()));
  CHECK(code_of(refused) == Errc::busy);
  CHECK(refused.error().context.find("first") != std::string::npos);
  CHECK(h.run(h.source.resign(h.soon())));
  CHECK(h.run(h.other.drive("second", h.soon())));
}

TEST_CASE("a file keeps its mode when it is replaced, and leaves nothing beside it") {
  FileHarness h;
  CHECK(replace_whole_file(h.path(), "one", 0640));
  CHECK(std::filesystem::status(h.path()).permissions() == std::filesystem::perms{0640});
  CHECK(replace_whole_file(h.path(), "two"));
  CHECK(std::filesystem::status(h.path()).permissions() == std::filesystem::perms{0640});
  CHECK(*read_whole_file(h.path(), 100) == "two");
  CHECK(code_of(read_whole_file(h.path(), 2)) == Errc::invalid);
  CHECK(code_of(read_whole_file(h.path() + "x", 2)) == Errc::not_found);
  CHECK(code_of(replace_whole_file(h.directory + "/no/file", "x")) == Errc::not_found);
  CHECK(std::distance(std::filesystem::directory_iterator(h.directory), {}) == 1);
}

TEST_CASE("a file is made whole, but never in the place of another") {
  FileHarness h;
  CHECK(make_whole_file(h.path(), "one", 0640));
  CHECK(std::filesystem::status(h.path()).permissions() == std::filesystem::perms{0640});
  CHECK(code_of(make_whole_file(h.path(), "two")) == Errc::invalid);
  CHECK(*read_whole_file(h.path(), 100) == "one");
  CHECK(replace_whole_file(h.path(), "two", 0600, ModeOfOld::replaced));
  CHECK(std::filesystem::status(h.path()).permissions() == std::filesystem::perms{0600});
  CHECK(*read_whole_file(h.path(), 100) == "two");
  CHECK(code_of(make_whole_file(h.directory + "/no/file", "x")) == Errc::not_found);
  CHECK(std::distance(std::filesystem::directory_iterator(h.directory), {}) == 1);
}

}  // namespace penstock
