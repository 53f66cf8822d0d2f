#include "server/transport/served_transfers.h"

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <new>

#include "tests/fake/fake_clock.h"
#include "tests/fake/fake_holder.h"

namespace penstock {
namespace {

TEST_CASE("an answer that throws is lost alone: the next steps are taken") {
  boost::asio::io_context io;
  FakeClock clock;
  const auto volume = std::make_shared<FakeHolder>(VolumeId{3});
  ServedTransfers transfers(io.get_executor(), clock);
  const Deadline until = clock.boot() + Duration(std::chrono::seconds(2));
  transfers.open(1, volume, wire::WriteFragment{}, until,
                 [](const Result<>&) { throw std::bad_alloc(); });
  io.poll();
  CHECK(volume->counters.writers_open == 1);
  bool committed = false;
  transfers.commit(1, until, [&committed](const Result<>& done) { committed = done.has_value(); });
  io.restart();
  io.poll();
  CHECK(committed);
  CHECK(transfers.size() == 0);
  CHECK(volume->counters.writers_open == 0);
}

}  // namespace
}  // namespace penstock
