#include "server/node/process_base.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace penstock {
namespace {

TEST_CASE("a process gives back the memory that its requests have left") {
  ProcessBase base(ProcessOptions{});
  Buffer part = base.buffers.get(512 << 10);  // its huge page stays, as long as this is in use
  {
    std::vector<Buffer> buffers;
    for (const std::size_t size : {16u << 10, 256u << 10, 512u << 10}) {
      for (int i = 0; i < 6; ++i) buffers.push_back(base.buffers.get(size));
    }
  }
  CHECK(base.buffers.idle_bytes() > 0);
  part = Buffer();
  const BootTime until = base.clock.boot() + std::chrono::seconds(30);
  while (base.buffers.idle_bytes() > 0 && base.clock.boot() < until) {
    std::this_thread::yield();
  }
  CHECK(base.buffers.idle_bytes() == 0);
}

}  // namespace
}  // namespace penstock
