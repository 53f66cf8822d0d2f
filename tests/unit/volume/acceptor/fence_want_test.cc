// Fences and epochs for which there was no descriptor, or no time: what was not stored does not
// count as stored when it is asked for again.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

// A volume whose next batch needs a new log, for which there is no descriptor until heal().
struct FullLog : VolumeHarness {
  FullLog() {
    fresh();
    close();
    VolumeOptions small = options();
    small.database.log_file_bytes_min = 64 * limits::kKiB;
    open(small);
    disk.fail(FakeDisk::Call::create, 1, FakeDisk::Fault::scarce, true);
    for (std::uint64_t i = 0; i < 400; ++i) {
      const auto stored =
          accept(object("key" + std::to_string(i)), ballot(i), value(i), std::string(4000, 'x'));
      if (!stored) return;
    }
    FAIL("the log has room for all");
  }
  void restart() {
    crash(Keep::none, Keep::none);
    open();
  }
  Errc read_under(std::uint64_t number) {
    auto request = read_request(object("key"));
    request->round.bucket_number = BucketNumber{number};
    return code_of(run(volume->read(request, later())));
  }
};

}  // namespace

TEST_CASE("a fence that could not be stored is stored when it is asked for again") {
  FullLog h;
  auto request = h.scan_request();
  request->fence = BucketNumber{7};
  request->round.pass_fence = true;
  CHECK(code_of(h.scan(request)) == Errc::overloaded);
  h.disk.heal();
  REQUIRE(h.scan(request));
  CHECK(h.read_under(7) == Errc::stale_bucket);
  h.restart();
  CHECK(h.read_under(7) == Errc::stale_bucket);
}

TEST_CASE("of two fences in one batch the higher is stored, whichever comes first") {
  VolumeHarness h;
  h.fresh();
  const auto scan = [&h](std::uint64_t number) {
    auto request = h.scan_request();
    request->fence = BucketNumber{number};
    request->round.pass_fence = true;
    boost::asio::co_spawn(h.io, h.volume->scan(request, h.later()), boost::asio::detached);
  };
  scan(7);
  scan(5);
  run_all(h.io, h.clock);
  h.crash(Keep::none, Keep::none);
  h.open();
  auto request = h.read_request(h.object("key"));
  request->round.bucket_number = BucketNumber{6};
  CHECK(code_of(h.run(h.volume->read(request, h.later()))) == Errc::stale_bucket);
}

TEST_CASE("fences of a join that could not be stored are stored when they are asked for again") {
  FullLog h;
  AdoptRequest request;
  request.map = std::make_shared<const std::string>(h.volume->get_map());
  request.epochs = {GroupEpoch{kGroup, Epoch{1}, {}}};
  request.join.fences = {{kBucket, BucketNumber{7}}};
  const auto shared = std::make_shared<const AdoptRequest>(request);
  CHECK(code_of(h.run(h.volume->adopt(shared, h.later()))) == Errc::overloaded);
  h.disk.heal();
  REQUIRE(h.run(h.volume->adopt(shared, h.later())));
  h.restart();
  CHECK(h.read_under(7) == Errc::stale_bucket);
}

}  // namespace penstock
