// Who takes space where a disk has room for one more segment.
#include "server/volume/fragments/segment.h"

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

constexpr std::uint64_t kSegmentBytes = 16 * limits::kMiB;

// Room for so many segments; a second one that is made beside another finds none.
class RoomFor final : public FragmentRoom {
 public:
  explicit RoomFor(int segments) : left_(segments) {}
  bool accepts_data() const override { return true; }
  Result<> grow(std::uint64_t, const std::function<Result<>()>& allocate) override {
    if (--left_ < 0) return fail(Errc::full, "no room for another segment");
    // The others come here now, if they come at all.
    for (int i = 0; i < 1'000 && left_ == 0; ++i) std::this_thread::yield();
    auto allocated = allocate();
    if (made != nullptr) free_when_made = made->free_bytes();
    return allocated;
  }
  const SegmentSet* made = nullptr;
  std::uint64_t free_when_made = 0;  // what `made` knows while the guard still counts the growth

 private:
  std::atomic<int> left_;
};

}  // namespace

TEST_CASE("while the last segment is made the others wait for their part of it") {
  FakeDisk disk;
  REQUIRE(disk.make_directory("segments"));
  RoomFor room(1);
  SegmentSet segments(disk, room, kSegmentBytes);
  constexpr int kWriters = 8;
  std::atomic<int> taken{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&] {
      const auto span = segments.allocate_growing(kSegmentBytes / kWriters);
      if (span) ++taken;
    });
  }
  for (std::thread& writer : writers) writer.join();
  CHECK(taken == kWriters);
  CHECK(code_of(segments.allocate_growing(kSegmentBytes / kWriters)) == Errc::full);
}

TEST_CASE("a segment has room before its growth is over: in between no volume looks full") {
  FakeDisk disk;
  REQUIRE(disk.make_directory("segments"));
  RoomFor room(1);
  SegmentSet segments(disk, room, kSegmentBytes);
  room.made = &segments;
  REQUIRE(segments.allocate_growing(limits::kMiB));
  CHECK(room.free_when_made == kSegmentBytes);
}

}  // namespace penstock
