// When a volume is full, for what, and how deletes end it.
#include "server/volume/space_guard.h"

#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

// R is 64 MiB in all of these: the disks are small, so 2 % of them is less.
constexpr std::uint64_t kReserve = 64 * limits::kMiB;
constexpr std::uint64_t kSegment = 16 * limits::kMiB;
constexpr std::uint64_t kGrowthReserve = kReserve + kReserve / 2;

SpaceOptions options() {
  return {.reserve_fraction = 0.02, .reserve_bytes = kReserve, .ballast_bytes = 0};
}

struct Guarded {
  explicit Guarded(std::uint64_t free_bytes, std::shared_ptr<SharedDevices> devices = nullptr)
      : guard(disk, clock, options(), std::move(devices)) {
    disk.set_capacity(free_bytes);
    REQUIRE(guard.open());
  }
  FakeDisk disk;
  FakeClock clock;
  SpaceGuard guard;
};

// Takes `bytes` of the disk, in a file of its own.
Result<> take(Disk& disk, const std::string& name, std::uint64_t bytes) {
  TRY(file, disk.open(name, OpenMode::write_new));
  return file->allocate(0, bytes);
}

}  // namespace

TEST_CASE("segments stop half a reserve before data does, and metadata never stops") {
  struct Row {
    std::uint64_t free_bytes;
    bool takes_data, grows;
  };
  for (const Row& row :
       {Row{kGrowthReserve + kSegment, true, true},
        Row{kGrowthReserve + kSegment - 4096, true, false}, Row{kReserve, true, false},
        Row{kReserve - 4096, false, false}, Row{4096, false, false}}) {
    CAPTURE(row.free_bytes);
    Guarded volume(row.free_bytes);
    CHECK(volume.guard.accepts_data() == row.takes_data);
    bool ran = false;
    const auto grown = volume.guard.grow(kSegment, [&]() -> Result<> {
      ran = true;
      return {};
    });
    CHECK(bool(grown) == row.grows);
    CHECK(ran == row.grows);
    if (!grown) CHECK(code_of(grown) == Errc::full);
  }
}

TEST_CASE("room inside of segments counts as free when the disk has none for another segment") {
  struct Row {
    std::uint64_t disk_free, segment_free;
    bool full;
    std::uint64_t free_bytes;
  };
  const std::uint64_t extent = kSegment;  // the largest that fits
  for (const Row& row : {
           Row{kGrowthReserve + kSegment, 0, false, kSegment},
           Row{kGrowthReserve + 4096, 0, true, 4096},
           Row{kGrowthReserve + 4096, extent, false, extent + 4096},
           Row{kReserve, extent, false, extent},
           Row{kReserve, extent - 4096, true, extent - 4096},
           Row{kReserve - 4096, 10 * extent, true, 10 * extent},
       }) {
    CAPTURE(row.disk_free);
    CAPTURE(row.segment_free);
    Guarded volume(row.disk_free);
    const SpaceGuard::Room room = volume.guard.room(kSegment, row.segment_free);
    CHECK(room.full == row.full);
    CHECK(room.free_bytes == row.free_bytes);
  }
}

TEST_CASE("a volume is not full while its last segment is being made") {
  Guarded volume(kGrowthReserve + kSegment);
  const auto grown = volume.guard.grow(kSegment, [&]() -> Result<> {
    CHECK_OK(take(volume.disk, "segment", kSegment));
    volume.guard.refresh();  // the room has left the disk, and is in no segment yet
    CHECK_FALSE(volume.guard.room(kSegment, 0).full);
    return {};
  });
  CHECK(grown.has_value());
  CHECK(volume.guard.room(kSegment, 0).full);
  CHECK_FALSE(volume.guard.room(kSegment, kSegment).full);
}

TEST_CASE("volumes on one device count its free space once, others for themselves") {
  const auto devices = std::make_shared<SharedDevices>();
  FakeClock clock;
  FakeDisk disk;
  disk.set_capacity(kGrowthReserve + 6 * kSegment);
  const auto first_view = disk.share();
  const auto second_view = disk.share();
  SpaceGuard first(*first_view, clock, options(), devices);
  REQUIRE(first.open());
  CHECK(first.room(kSegment, 4096).free_bytes == 6 * kSegment + 4096);
  {
    SpaceGuard second(*second_view, clock, options(), devices);
    REQUIRE(second.open());
    CHECK(first.room(kSegment, 4096).free_bytes == 3 * kSegment + 4096);
    CHECK(second.room(kSegment, 0).free_bytes == 3 * kSegment);
    CHECK(second.room(kSegment, 0).total_bytes == (kGrowthReserve + 6 * kSegment) / 2);
    SpaceGuard alone(*second_view, clock, options());
    REQUIRE(alone.open());
    CHECK(alone.room(kSegment, 0).free_bytes == 6 * kSegment);
  }
  CHECK(first.room(kSegment, 0).free_bytes == 6 * kSegment);
}

TEST_CASE("of volumes that grow at the same time on one device none goes below the reserve") {
  const auto devices = std::make_shared<SharedDevices>();
  FakeClock clock;
  FakeDisk disk;
  disk.set_capacity(kGrowthReserve + kSegment);  // room for one segment
  const auto first_view = disk.share();
  const auto second_view = disk.share();
  SpaceGuard first(*first_view, clock, options(), devices);
  SpaceGuard second(*second_view, clock, options(), devices);
  REQUIRE(first.open());
  REQUIRE(second.open());
  const auto take_first = [&] {
    // What one is about to take is taken, and nobody waits for it: its disk may hang.
    CHECK(code_of(second.grow(kSegment, [] { return Result<>{}; })) == Errc::full);
    return take(*first_view, "1", kSegment);
  };
  REQUIRE(first.grow(kSegment, take_first));
  CHECK(code_of(second.grow(kSegment, [&] { return take(*second_view, "2", kSegment); })) ==
        Errc::full);
  CHECK(devices->find(disk.space()->device)->taken_bytes == 0);
}

TEST_CASE("a volume that segments filled opens again with deletes, and only for what fits") {
  VolumeHarness h;
  h.disk.set_capacity(256 * limits::kMiB);
  h.fresh();
  const auto put = [&](std::uint64_t n, std::uint64_t bytes) -> Result<> {
    const FragmentId id{WriteId{1, n}, 0, Generation{1}};
    TRY(writer, h.run(h.volume->write_fragment(id, {bytes}, h.later())));
    std::vector<std::uint32_t> crcs;
    Buffer data = h.buffers.get(static_cast<std::size_t>(bytes));
    std::memset(data.data(), static_cast<int>(n), data.size());
    for (std::uint64_t at = 0; at < bytes; at += limits::kBlockBytes) {
      const auto length = std::min<std::uint64_t>(limits::kBlockBytes, bytes - at);
      crcs.push_back(fragment_block_crc(id.write_id, id.slot, at / limits::kBlockBytes,
                                        data.bytes().subspan(at, length)));
    }
    CHECK_OK(h.run(writer->append(std::move(data), std::move(crcs), h.later())));
    return h.run(writer->commit(h.later()));
  };
  const auto tick = [&] {  // the guard looks at the disk
    h.clock.advance(std::chrono::seconds(1));
    REQUIRE(h.volume->check_identity());
  };
  std::uint64_t count = 0;
  while (put(count + 1, limits::kMiB)) ++count;
  REQUIRE(count > 32);
  tick();
  CHECK(h.volume->status().full);
  // Small objects still find room, and rows of all kinds.
  h.store(h.object("key"), h.ballot(1), h.value(1), "inline");

  for (std::uint64_t n = 1; n <= 32; ++n) {
    REQUIRE(h.run(h.volume->remove_fragment({WriteId{1, n}, 0, Generation{1}}, h.later())));
  }
  tick();
  CHECK_FALSE(h.volume->status().full);
  CHECK(h.volume->status().free_bytes >= 32 * limits::kMiB);
  CHECK(put(1000, limits::kMiB));
  CHECK(code_of(put(1001, 20 * limits::kMiB)) == Errc::full);  // would be a file: no disk for it

  // Below the reserve the rows need the disk: no data, whatever is free in segments.
  const std::uint64_t free = h.disk.space()->free_bytes;
  REQUIRE(take(h.disk, "filler", free - kReserve + limits::kMiB));
  tick();
  CHECK(h.volume->status().full);
  CHECK(code_of(put(1002, limits::kMiB)) == Errc::full);
  CHECK(code_of(h.accept(h.object("key"), h.ballot(2), h.value(2), "inline")) == Errc::full);
  h.store(h.object("key"), h.ballot(3), h.value(3, ValueKind::tombstone));
  REQUIRE(h.run(h.volume->remove_fragment({WriteId{1, 1000}, 0, Generation{1}}, h.later())));
  CHECK(h.volume->status().state == VolumeStatus::State::open);
}

TEST_CASE("deletes on a disk without room for a file of the log take the ballast") {
  VolumeHarness h;
  h.fresh();
  const std::uint64_t free = h.disk.space()->free_bytes;
  REQUIRE(take(h.disk, "filler", free - 100 * limits::kKiB));  // less than a file of the log
  REQUIRE(h.disk.file_size("ballast").value() == limits::kMiB);
  for (std::uint64_t n = 1; n <= 200; ++n) {
    h.store(h.object("key" + std::to_string(n)), h.ballot(n), h.value(n, ValueKind::tombstone));
  }
  CHECK(h.volume->status().state == VolumeStatus::State::open);
  CHECK(h.disk.file_size("ballast").value() == 0);
}

}  // namespace penstock
