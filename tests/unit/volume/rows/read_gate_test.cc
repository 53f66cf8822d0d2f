#include "server/volume/rows/read_gate.h"

#include <doctest/doctest.h>

#include <future>
#include <optional>
#include <thread>
#include <vector>

namespace penstock {
namespace {

bool passes(ReadGate& gate) { return static_cast<bool>(ReadGate::Pass(gate)); }

TEST_CASE("nobody passes a gate while any of its closings lives") {
  ReadGate gate;
  CHECK(passes(gate));
  std::optional<ReadGate::Closing> one(std::in_place, gate);
  {
    const ReadGate::Closing other(gate);
    CHECK_FALSE(passes(gate));
  }
  CHECK_FALSE(passes(gate));
  one.reset();
  CHECK(passes(gate));
}

TEST_CASE("a gate is closed when the last has left") {
  ReadGate gate;
  std::optional<ReadGate::Pass> pass(std::in_place, gate);
  REQUIRE(static_cast<bool>(*pass));
  std::atomic<bool> closed = false;
  auto closer = std::async(std::launch::async, [&] {
    const ReadGate::Closing closing(gate);
    closed = true;
  });
  while (!gate.closed()) std::this_thread::yield();
  CHECK_FALSE(passes(gate));
  CHECK_FALSE(closed.load());
  pass.reset();
  closer.get();
  CHECK(closed.load());
  CHECK(passes(gate));
}

TEST_CASE("nobody is ever inside a closed gate") {
  ReadGate gate;
  std::atomic<int> inside = 0;
  std::atomic<bool> ended = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!ended) {
        const ReadGate::Pass pass(gate);
        if (!pass) continue;
        ++inside;
        --inside;
      }
    });
  }
  for (int i = 0; i < 2000; ++i) {
    const ReadGate::Closing closing(gate);
    REQUIRE(inside.load() == 0);
  }
  ended = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace penstock
