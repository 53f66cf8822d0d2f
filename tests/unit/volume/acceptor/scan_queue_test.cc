// Many scans at once, as when all loaders of a job begin to list.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

using Answers = std::vector<std::string>;

// Starts `count` scans, then one read that has to ask the worker; says who was answered, in order.
Answers start(VolumeHarness& h, std::size_t count, Deadline deadline) {
  Answers answers;
  const auto begin = [&](auto task, const std::string& who) {
    boost::asio::co_spawn(h.io, std::move(task), [&answers, who](const auto&, const auto& result) {
      answers.push_back(result ? who : who + " " + std::string(to_string(result.error().code)));
    });
  };
  for (std::size_t i = 0; i < count; ++i) begin(h.volume->scan(h.scan_request(), deadline), "scan");
  begin(h.volume->read(h.read_request(h.object("key")), h.later()), "read");
  h.io.restart();
  h.io.run();
  return answers;
}

std::size_t count_of(const Answers& answers, const std::string& who) {
  return static_cast<std::size_t>(std::count(answers.begin(), answers.end(), who));
}

}  // namespace

TEST_CASE("scans wait for each other in place of being refused, up to the bound of the queue") {
  VolumeHarness h;
  h.fresh();
  h.store(h.object("key"), h.ballot(1), h.value(1));
  h.close();
  h.disk.set_cold(true);
  h.open();
  const Answers some = start(h, 500, h.later());
  CHECK(count_of(some, "scan") == 500);
  CHECK(count_of(some, "read") == 1);
  const Answers many = start(h, limits::kVolumeQueueMax + 10, h.later());
  CHECK(count_of(many, "scan") == limits::kVolumeQueueMax);
  CHECK(count_of(many, "scan overloaded") == 10);
  CHECK(count_of(many, "read") == 1);
  CHECK(count_of(start(h, 3, h.later()), "scan") == 3);
}

TEST_CASE("a scan that waited beyond its deadline is not made") {
  VolumeHarness h;
  h.fresh();
  const Answers late = start(h, 3, h.clock.boot() - std::chrono::seconds(1));
  CHECK(count_of(late, "scan timeout") == 3);
}

}  // namespace penstock
