#include "server/transport/frame.h"

#include <doctest/doctest.h>

#include "tests/fake/fake_stream.h"

namespace penstock {
namespace {

TEST_CASE("what is taken back does not wait any more") {
  FakeWire wire;
  const auto stream = wire.client_end();
  FrameSender sender(*stream);
  wire::Header header;
  header.operation = wire::Operation::ping;
  const auto first = sender.push(make_frame(header, "fields"));
  const std::size_t one = sender.waiting_bytes();
  CHECK(one == wire::kHeaderBytes + 6);
  const auto second = sender.push(make_frame(header, "fields"));
  CHECK(sender.take_back(first));
  CHECK(sender.waiting_bytes() == one);
  CHECK_FALSE(sender.take_back(first));
  CHECK(sender.take_back(second));
  CHECK(sender.waiting_bytes() == 0);
}

}  // namespace
}  // namespace penstock
