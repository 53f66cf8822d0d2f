// What was acknowledged is synced: judged by the system calls, on a real disk.
#include <filesystem>

#include "penstock/log.h"
#include "server/volume/fragments/fragment_format.h"
#include "tests/syscalls/sync_watch.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

// A directory on a disk that can do O_DIRECT, as far as there is one.
class RealDirectory {
 public:
  RealDirectory() {
    path_ = (std::filesystem::current_path() / "penstock-sync-XXXXXX").string();
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
  }
  ~RealDirectory() { std::filesystem::remove_all(path_); }
  std::unique_ptr<Disk> disk() const { return make_posix_disk(path_).value(); }
  // What a power cut would take now. The lock file says nothing: a start makes it.
  std::string at_risk() const {
    std::string found;
    for (const std::string& name : syscalls::unsynced(path_)) {
      found += " " + (name == path_ ? "the names in it" : name.substr(path_.size() + 1));
    }
    return found;
  }

 private:
  std::string path_;
};

// Bytes that O_DIRECT takes.
struct Aligned {
  Aligned() : bytes(static_cast<std::byte*>(std::aligned_alloc(4096, 4096))) {
    std::memset(bytes, 'd', 4096);
  }
  ~Aligned() { std::free(bytes); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  std::byte* bytes;
};

// The volume of a harness, on a real disk.
struct RealVolume {
  RealVolume() {
    LoopWorker worker(h.io);
    const auto disk = directory.disk();
    REQUIRE(format_volume(*disk, h.clock, h.random, worker, {kCluster, kVolume}, "{}"));
    CHECK_MESSAGE(directory.at_risk().empty(), directory.at_risk());
    open();
  }
  ~RealVolume() { h.close(); }
  void open() {
    VolumeOptions options = VolumeHarness::options();
    options.database.write_buffer_bytes = 64 * limits::kKiB;
    options.fragments.segment_bytes = limits::kMiB;
    options.space.reserve_bytes = 0;
    options.space.reserve_fraction = 0;
    options.boot_id = "boot";
    auto opened = Volume::open({directory.disk(), h.clock, h.random, h.buffers, h.workers()},
                               std::move(options));
    REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().context));
    h.volume = std::move(*opened);
    REQUIRE(h.run(h.volume->set_epochs({GroupEpoch{kGroup, Epoch{1}, {}}})));
  }
  // Nothing that was acknowledged so far may be at risk.
  void look(const std::string& after) const {
    const std::string found = directory.at_risk();
    CHECK_MESSAGE(found.empty(), "after ", after, ":", found);
  }
  void put_fragment(std::uint64_t number, std::size_t pieces, std::size_t bytes) {
    const FragmentId id{WriteId{number, 1}, 0, Generation{1}};
    auto writer = h.run(h.volume->write_fragment(id, FragmentShape{pieces * bytes}, h.later()));
    REQUIRE(writer);
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      Buffer data = h.buffers.get(bytes);
      std::memset(data.data(), 'f', bytes);
      std::vector<std::uint32_t> crcs;
      for (std::size_t at = 0; at < bytes; at += limits::kBlockBytes) {
        const std::size_t length = std::min<std::size_t>(limits::kBlockBytes, bytes - at);
        const auto block = (piece * bytes + at) / limits::kBlockBytes;
        crcs.push_back(
            fragment_block_crc(id.write_id, id.slot, block, data.bytes().subspan(at, length)));
      }
      REQUIRE(h.run((*writer)->append(std::move(data), std::move(crcs), h.later())));
    }
    REQUIRE(h.run((*writer)->commit(h.later())));
  }

  RealDirectory directory;
  VolumeHarness h;
};

}  // namespace

TEST_CASE("a sync of a file makes its bytes durable, however it was opened") {
  const RealDirectory directory;
  const auto disk = directory.disk();
  const Aligned page;
  for (const OpenMode mode : {OpenMode::write_new, OpenMode::append, OpenMode::direct}) {
    CAPTURE(static_cast<int>(mode));
    auto file = disk->open("file", mode).value();
    REQUIRE(disk->sync_directory(""));
    REQUIRE(file->sync());
    CHECK_MESSAGE(directory.at_risk().empty(), directory.at_risk());
    REQUIRE(file->write_at(0, {page.bytes, 4096}));
    CHECK(directory.at_risk() == " file");
    REQUIRE(file->sync());
    CHECK(directory.at_risk() == "");
    REQUIRE(file->allocate(4096, 4096));
    CHECK(directory.at_risk() == " file");
    REQUIRE(file->sync());
    REQUIRE(file->truncate(4096));
    CHECK(directory.at_risk() == " file");
    REQUIRE(file->sync());
    CHECK(directory.at_risk() == "");
  }
}

TEST_CASE("a sync of a directory makes its names durable") {
  const RealDirectory directory;
  const auto disk = directory.disk();
  REQUIRE(disk->open("file", OpenMode::write_new));
  CHECK(directory.at_risk() == " the names in it");
  REQUIRE(disk->sync_directory(""));
  CHECK(directory.at_risk() == "");
  REQUIRE(disk->make_directory("below"));
  CHECK(directory.at_risk() == " the names in it");
  REQUIRE(disk->sync_directory(""));
  REQUIRE(disk->rename("file", "below/other"));
  CHECK(directory.at_risk().find("below") != std::string::npos);
  REQUIRE(disk->sync_directory("below"));
  REQUIRE(disk->sync_directory(""));
  CHECK(directory.at_risk() == "");
}

TEST_CASE("what a volume has acknowledged is synced, down to the system calls") {
  RealVolume v;
  v.look("the open");
  VolumeHarness& h = v.h;
  for (int i = 0; i < 400; ++i) {  // logs rotate, tables are made and compacted
    const std::string name = "key" + std::to_string(i % 40);
    h.store(h.object(name), h.ballot(static_cast<std::uint64_t>(i) + 1),
            h.value(static_cast<std::uint64_t>(i) + 1), std::string(900, 'i'));
    v.look("accept " + std::to_string(i));
  }
  REQUIRE(h.prepare(h.object("promised"), h.ballot(60'000'000)));
  v.look("a promise");
  REQUIRE(h.run(h.volume->put_note("note", "bytes")));
  v.look("a note");
  AdoptRequest request;
  request.map = std::make_shared<const std::string>("another map");
  REQUIRE(h.run(h.volume->adopt(std::make_shared<const AdoptRequest>(request), h.later())));
  v.look("a map");
  const auto direct_before = syscalls::direct_writes();
  for (std::uint64_t i = 1; i < 12; ++i) {  // more than one segment
    v.put_fragment(i, 1, i % 2 == 0 ? 200'000 : 4'000);
    v.look("fragment " + std::to_string(i));
  }
  MESSAGE("writes with O_DIRECT: ", syscalls::direct_writes() - direct_before);
  v.put_fragment(100, 3, 512 * limits::kKiB);
  v.look("a fragment that is a file of its own");
  const FragmentId gone{WriteId{1, 1}, 0, Generation{1}};
  REQUIRE(h.run(h.volume->remove_fragment(gone, h.later())));
  v.look("a removal");
  h.close();
  v.look("the end");
  v.open();
  v.look("the next open");
}

}  // namespace penstock
