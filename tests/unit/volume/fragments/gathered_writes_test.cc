#include "server/volume/fragments/gathered_writes.h"

#include <stdexcept>

#include "tests/fake/observed_disk.h"
#include "tests/unit/volume/fragments/fragment_fixture.h"

namespace penstock::fragment_test {
namespace {

constexpr std::uint64_t kSegmentBytes = 8 * limits::kMiB;

// Two segments; `calls` counts the writes of the disk.
struct World {
  World() {
    REQUIRE(segments->open());
    segment = segments->allocate_growing(kSegmentBytes).value().segment;
    other_segment = segments->allocate_growing(kSegmentBytes).value().segment;
    calls = 0;
  }

  struct One final : GatheredWrites::Write {
    One(World& w, std::vector<Buffer> b) : world(w), buffers(std::move(b)) {}
    std::vector<Buffer> begin() override {
      if (throws) throw std::runtime_error("planted");
      return std::move(buffers);
    }
    void end(const Result<>& result) override {
      ++ends;
      if (!result) code = result.error().code;
      if (world.after_end) std::exchange(world.after_end, nullptr)();
    }
    World& world;
    std::vector<Buffer> buffers;
    bool throws = false;
    int ends = 0;
    std::optional<Errc> code;
  };
  // So many granules, each full of the letter of the first one of its buffer.
  std::shared_ptr<One> add(std::uint64_t at, std::uint64_t granules, std::size_t parts = 1) {
    return add(segment, at, granules, parts);
  }
  std::shared_ptr<One> add(std::uint32_t where, std::uint64_t at, std::uint64_t granules,
                           std::size_t parts) {
    std::vector<Buffer> made;
    for (std::size_t i = 0; i < parts; ++i) {
      made.push_back(buffers.get(granules / parts * kGranuleBytes));
      std::memset(made.back().data(), letter(at + i * (granules / parts)), made.back().size());
    }
    auto one = std::make_shared<One>(*this, std::move(made));
    writes->add({where, at * kGranuleBytes, granules * kGranuleBytes}, one);
    return one;
  }
  static char letter(std::uint64_t granule) { return static_cast<char>('a' + granule % 26); }
  // Of the first byte there.
  char found(std::uint64_t granule) { return found(segment, granule); }
  char found(std::uint32_t where, std::uint64_t granule) {
    char byte = 0;
    const MutBytes one(reinterpret_cast<std::byte*>(&byte), 1);
    REQUIRE(segments->file(where).value()->file().read_at(granule * kGranuleBytes, one));
    return byte;
  }
  void run() {
    io.restart();
    io.run();
  }

  FakeDisk medium;
  int calls = 0;
  std::unique_ptr<Disk> disk =
      make_observed_disk(medium.share(), [this](FakeDisk::Call call, const std::string&) {
        calls += call == FakeDisk::Call::write ? 1 : 0;
      });
  OpenRoom room{&medium};
  std::shared_ptr<SegmentSet> segments = std::make_shared<SegmentSet>(*disk, room, kSegmentBytes);
  boost::asio::io_context io;
  PostWorker worker{io};
  BufferPool buffers{8 * limits::kMiB};
  std::optional<Error> closed;
  std::shared_ptr<GatheredWrites> writes =
      std::make_shared<GatheredWrites>(worker, segments, [this]() -> Result<> {
        if (closed) return *closed;
        return {};
      });
  std::uint32_t segment = 0, other_segment = 0;
  std::function<void()> after_end;  // called once
};

}  // namespace

TEST_CASE("writes that lie side by side go to the disk together, in whatever order they came") {
  World world;
  const auto third = world.add(6, 2);
  const auto first = world.add(0, 4, 2);
  const auto second = world.add(4, 2, 2);
  const auto apart = world.add(9, 1);
  world.run();
  CHECK(world.calls == 2);
  for (const auto& one : {first, second, third, apart}) {
    CHECK(one->ends == 1);
    CHECK_FALSE(one->code);
  }
  for (const std::uint64_t at : {0, 2, 4, 5, 6, 9}) CHECK(world.found(at) == World::letter(at));
  CHECK(world.found(8) == 0);
}

TEST_CASE("one call has no more bytes and writes than it may") {
  World world;
  constexpr std::uint64_t kGranules = GatheredWrites::kCallBytesMax / kGranuleBytes;
  world.add(0, kGranules - 1);
  world.add(kGranules - 1, 1);
  world.run();
  CHECK(world.calls == 1);
  world.add(0, kGranules - 1);
  world.add(kGranules - 1, 2);
  world.run();
  CHECK(world.calls == 3);
  for (std::uint64_t i = 0; i < GatheredWrites::kCallWritesMax; ++i) world.add(2 * i, 2, 2);
  world.run();
  CHECK(world.calls == 4);
  for (std::uint64_t i = 0; i <= GatheredWrites::kCallWritesMax; ++i) world.add(2 * i, 2, 2);
  world.run();
  CHECK(world.calls == 6);
  for (std::uint64_t i = 0; i <= GatheredWrites::kCallWritesMax; ++i) {
    CHECK(world.found(2 * i + 1) == World::letter(2 * i + 1));
  }
}

TEST_CASE("each segment gets its own bytes, also where one ends and another one begins") {
  World world;
  const auto one = world.add(world.segment, 0, 1, 1);
  const auto other = world.add(world.other_segment, 1, 1, 1);
  world.run();
  CHECK(world.calls == 2);
  CHECK(world.found(world.segment, 0) == World::letter(0));
  CHECK(world.found(world.segment, 1) == 0);
  CHECK(world.found(world.other_segment, 1) == World::letter(1));
}

TEST_CASE("who waits at a higher place has its turn before those who come at lower ones") {
  World world;
  const auto high = world.add(100, 1);
  int lower = 0;
  const std::function<void()> come = [&] {
    if (high->ends > 0 || ++lower > 20) return;
    world.add(static_cast<std::uint64_t>(2 * lower), 1);
    world.after_end = come;
  };
  world.after_end = come;
  world.add(50, 1);
  world.run();
  CHECK(high->ends == 1);
  CHECK(lower < 5);
}

TEST_CASE("when the worker was abandoned what waits is forgotten with its bytes, and what comes") {
  World world;
  const auto waits = world.add(0, 1);
  world.writes->abandon();
  CHECK(waits->buffers.empty());
  std::weak_ptr<World::One> later = world.add(1, 1);
  CHECK(later.expired());
  world.run();
  CHECK(waits->ends == 0);
  CHECK(world.calls == 0);
}

TEST_CASE("what comes while others are being written is written behind them") {
  World world;
  std::shared_ptr<World::One> later;
  world.after_end = [&] { later = world.add(1, 1); };
  world.add(0, 1);
  world.run();
  REQUIRE(later);
  CHECK(later->ends == 1);
  CHECK(world.found(1) == World::letter(1));
  world.add(2, 1);
  world.run();
  CHECK(world.found(2) == World::letter(2));
}

TEST_CASE("a write that nobody waits for is left out, and those around it are in their places") {
  World world;
  world.add(0, 1);
  const auto given_up = world.add(1, 1);
  world.add(2, 1);
  given_up->buffers.clear();
  world.run();
  CHECK(given_up->ends == 0);
  CHECK(world.calls == 2);
  CHECK(world.found(0) == World::letter(0));
  CHECK(world.found(1) == 0);
  CHECK(world.found(2) == World::letter(2));
}

TEST_CASE("a call that fails fails all that it was for, and no others") {
  World world;
  const auto one = world.add(0, 1);
  const auto neighbour = world.add(1, 1);
  const auto apart = world.add(5, 1);
  world.medium.fail(FakeDisk::Call::write, 1, FakeDisk::Fault::io);
  world.run();
  CHECK(one->code == Errc::io);
  CHECK(neighbour->code == Errc::io);
  CHECK_FALSE(apart->code);
  CHECK(one->ends + neighbour->ends + apart->ends == 3);
}

TEST_CASE("when the store is closed nothing is written any more") {
  World world;
  const auto one = world.add(0, 1);
  world.closed = fail(Errc::unavailable, "closed");
  world.run();
  CHECK(one->code == Errc::unavailable);
  CHECK(world.calls == 0);
}

TEST_CASE("a throw leaves nobody waiting, and later writes are made") {
  World world;
  const auto before = world.add(0, 1);
  const auto thrower = world.add(1, 1);
  const auto behind = world.add(2, 1);
  thrower->throws = true;
  world.run();
  for (const auto& one : {before, thrower, behind}) {
    CHECK(one->ends == 1);
    CHECK(one->code == Errc::io);
  }
  const auto later = world.add(3, 1);
  world.run();
  CHECK_FALSE(later->code);
  CHECK(world.found(3) == World::letter(3));
}

}  // namespace penstock::fragment_test
