#include "server/volume/disk/disk.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/limits.h"
#include "tests/fake/code_of.h"
#include "tests/fake/fake_disk.h"
#include "tests/fake/temporary_directory.h"

namespace penstock {
namespace {
std::atomic<int> file_syncs{0}, directory_syncs{0};
std::atomic<std::size_t> written_at_once{SIZE_MAX}, writes{0};
}  // namespace
}  // namespace penstock

// In place of the C library's: what a disk says is synced must have been given to the kernel.
extern "C" int fdatasync(int fd) {
  ++penstock::file_syncs;
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}
// Tells of less than it was given, as the kernel may, which writes whole pages past its cache.
extern "C" ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  ++penstock::writes;
  const std::size_t most = penstock::written_at_once;
  std::size_t left = most > SIZE_MAX - 4096 ? most : (most + 4095) / 4096 * 4096;
  std::vector<iovec> taken;
  for (int i = 0; i < count && left > 0; ++i) {
    taken.push_back({parts[i].iov_base, std::min(parts[i].iov_len, left)});
    left -= taken.back().iov_len;
  }
  const ssize_t put = ::syscall(SYS_pwritev, fd, taken.data(), taken.size(), offset, 0);
  return put > 0 ? static_cast<ssize_t>(std::min(static_cast<std::size_t>(put), most)) : put;
}
extern "C" ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t offset) {
  return pwritev(fd, parts, count, offset);
}
extern "C" int fsync(int fd) {
  ++penstock::directory_syncs;
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace penstock {
namespace {

std::string read_all(File& file) {
  std::string bytes(static_cast<std::size_t>(*file.size()), '\0');
  REQUIRE(*file.read_at(0, std::as_writable_bytes(std::span(bytes))) == bytes.size());
  return bytes;
}

TEST_CASE("a sync of a file or a directory is one of the kernel's") {
  TemporaryDirectory where;
  const auto disk = *make_posix_disk(where.path.string());
  const auto file = *disk->open("file", OpenMode::write_new);
  REQUIRE(file->write_at(0, as_bytes(std::string_view("bytes"))));
  const int files = file_syncs;
  REQUIRE(file->sync());
  CHECK(file_syncs == files + 1);
  const int directories = directory_syncs;
  REQUIRE(disk->sync_directory(""));
  CHECK(directory_syncs == directories + 1);
}

TEST_CASE("parts are written one behind the other, however few bytes a call takes") {
  TemporaryDirectory where;
  const auto disk = *make_posix_disk(where.path.string());
  REQUIRE(disk->open("file", OpenMode::write_new));
  BufferPool buffers(limits::kMiB);
  std::vector<Buffer> kept;
  std::vector<ConstBytes> parts;
  std::string all;
  for (std::size_t granules = 1; granules <= 4; ++granules) {
    const Buffer& part = kept.emplace_back(buffers.get(granules * 4096));
    for (std::size_t i = 0; i < part.size(); ++i) {
      part.data()[i] = static_cast<std::byte>(mix_hash(granules * 1'000'000 + i));
    }
    parts.push_back(part.bytes());
    all += as_text(part.bytes());
  }
  for (const OpenMode mode : {OpenMode::append, OpenMode::direct}) {
    for (const std::size_t at_once : {65536ul, 4096ul, 8192ul, 12288ul, 20480ul, 1000ul, 4097ul}) {
      CAPTURE(at_once);
      const std::size_t used = mode == OpenMode::direct ? at_once / 4096 * 4096 : at_once;
      const auto file = *disk->open("file", mode);
      REQUIRE(file->truncate(0));
      written_at_once = at_once;
      writes = 0;
      const Result<> written = file->write_parts(8192, parts);
      written_at_once = SIZE_MAX;
      if (used == 0) {
        CHECK(code_of(written) == Errc::io);
        continue;
      }
      CHECK(written);
      CHECK(writes == (all.size() + used - 1) / used);
      CHECK((read_all(*file) == std::string(8192, '\0') + all));
    }
  }
}

TEST_CASE("a directory that is not there is not found") {
  CHECK(code_of(make_posix_disk("/nonexistent/volume")) == Errc::not_found);
}

TEST_CASE("real files are written, read, listed, renamed and removed") {
  TemporaryDirectory where;
  auto disk = *make_posix_disk(where.path.string());
  CHECK(code_of(disk->open("a", OpenMode::read)) == Errc::not_found);
  CHECK(code_of(disk->open("a", OpenMode::direct)) == Errc::not_found);
  {
    auto file = *disk->open("a", OpenMode::write_new);
    REQUIRE(file->write_at(3, as_bytes("abc")));
    REQUIRE(file->write_at(0, as_bytes("xyz")));
    REQUIRE(file->sync());
    CHECK(read_all(*file) == "xyzabc");
    REQUIRE(file->truncate(4));
    CHECK(*file->size() == 4);
    std::byte beyond[8];
    CHECK(*file->read_at(4, beyond) == 0);
    CHECK(*file->read_at(2, beyond) == 2);
  }
  CHECK(read_all(**disk->open("a", OpenMode::append)) == "xyza");
  CHECK(*(*disk->open("a", OpenMode::write_new))->size() == 0);
  REQUIRE(disk->make_directory("sub"));
  REQUIRE(disk->make_directory("sub"));
  REQUIRE(disk->rename("a", "sub/b"));
  REQUIRE(disk->sync_directory("sub"));
  REQUIRE(disk->sync_directory(""));
  CHECK(*disk->list("") == std::vector<std::string>{"sub"});
  CHECK(*disk->list("sub") == std::vector<std::string>{"b"});
  CHECK(disk->exists("sub/b"));
  CHECK(*disk->file_size("sub/b") == 0);
  REQUIRE(disk->remove("sub/b"));
  CHECK(code_of(disk->remove("sub/b")) == Errc::not_found);
  CHECK(code_of(disk->list("nowhere")) == Errc::not_found);
  const auto space = *disk->space();
  CHECK(space.total_bytes >= space.free_bytes);
  CHECK(space.total_bytes > 0);
}

TEST_CASE("what the system refuses is an error, by its kind") {
  TemporaryDirectory where;
  auto disk = *make_posix_disk(where.path.string());
  REQUIRE(disk->open("file", OpenMode::write_new));
  CHECK(code_of(disk->rename("absent", "other")) == Errc::not_found);
  CHECK(code_of(disk->file_size("absent")) == Errc::not_found);
  CHECK(code_of(disk->sync_directory("absent")) == Errc::not_found);
  CHECK(code_of(disk->make_directory("absent/sub")) == Errc::not_found);
  CHECK(code_of(disk->list("file")) == Errc::not_found);
  CHECK(code_of(disk->remove("file/sub")) == Errc::not_found);
  CHECK(code_of(disk->open(".", OpenMode::write_new)) == Errc::io);
  auto directory = *disk->open(".", OpenMode::read);
  std::byte buffer[10];
  CHECK(code_of(directory->read_at(0, buffer)) == Errc::io);
  if (auto now = directory->read_now(0, buffer)) CHECK(code_of(*now) == Errc::io);

  auto devices = *make_posix_disk("/dev");
  auto full = *devices->open("full", OpenMode::append);
  CHECK(code_of(full->write_at(0, as_bytes("x"))) == Errc::full);
  auto null = *devices->open("null", OpenMode::append);
  CHECK(null->write_at(0, as_bytes("x")));
  CHECK(code_of(null->sync()) == Errc::io);
  CHECK(code_of(null->truncate(0)) == Errc::io);
  CHECK(code_of(null->allocate(0, 4096)) == Errc::io);
}

TEST_CASE("a direct file writes aligned pieces and reads any byte of them") {
  TemporaryDirectory where;
  auto disk = *make_posix_disk(where.path.string());
  REQUIRE((*disk->open("a", OpenMode::write_new))->allocate(0, 1 << 20));
  auto file = *disk->open("a", OpenMode::direct);
  BufferPool pool(limits::kMiB);
  const Buffer data = pool.get(64 * limits::kKiB);
  for (std::size_t i = 0; i < data.size(); ++i) data.data()[i] = static_cast<std::byte>(i * 7);
  REQUIRE(file->write_at(8192, data.bytes()));
  REQUIRE(file->sync());
  std::byte read[100];
  REQUIRE(*file->read_at(8192 + 5000, read) == sizeof read);
  CHECK(std::equal(read, read + sizeof read, data.data() + 5000));
  CHECK(file->descriptor() >= 0);
}

TEST_CASE("read_now answers what is in memory, and leaves the end of the file to others") {
  TemporaryDirectory where;
  auto disk = *make_posix_disk(where.path.string());
  auto file = *disk->open("a", OpenMode::write_new);
  REQUIRE(file->write_at(0, as_bytes(std::string(10'000, 'n'))));
  std::byte buffer[4096];
  // A file system without RWF_NOWAIT answers nullopt, which is right, too.
  if (auto now = file->read_now(4000, buffer)) {
    CHECK(now->value() == 4096);
    CHECK(buffer[4095] == std::byte{'n'});
  }
  CHECK(!file->read_now(8000, buffer));
  CHECK(!file->read_now(20'000, buffer));
}

TEST_CASE("a lock is held by one and ends with its file") {
  TemporaryDirectory where;
  auto disk = *make_posix_disk(where.path.string());
  auto other = *make_posix_disk(where.path.string());
  {
    const auto lock = disk->lock("lock");
    REQUIRE(lock);
    CHECK(code_of(other->lock("lock")) == Errc::busy);
  }
  CHECK(other->lock("lock"));
}

TEST_CASE("a removed or replaced directory is noticed") {
  TemporaryDirectory where;
  const auto path = where.path / "volume";
  std::filesystem::create_directory(path);
  auto disk = *make_posix_disk(path.string());
  CHECK(disk->check_directory());
  std::filesystem::rename(path, where.path / "elsewhere");
  CHECK(code_of(disk->check_directory()) == Errc::not_found);
  std::filesystem::create_directory(path);
  CHECK(code_of(disk->check_directory()) == Errc::not_found);
  // What is written goes to the directory that was opened, never to the one that took its place.
  REQUIRE(disk->open("a", OpenMode::write_new));
  CHECK(std::filesystem::exists(where.path / "elsewhere" / "a"));
  CHECK_FALSE(std::filesystem::exists(path / "a"));
}

using Call = FakeDisk::Call;
using Fault = FakeDisk::Fault;

TEST_CASE("after one failed change a latching disk refuses all, and says so once") {
  const struct {
    Call call;
    std::function<bool(Disk&, File&)> change;
  } changes[] = {
      {Call::create, [](Disk& d, File&) { return bool(d.open("new", OpenMode::write_new)); }},
      {Call::write, [](Disk&, File& f) { return bool(f.write_at(0, as_bytes("x"))); }},
      {Call::write,
       [](Disk&, File& f) {
         const ConstBytes parts[] = {as_bytes("x"), as_bytes("y")};
         return bool(f.write_parts(0, parts));
       }},
      {Call::sync, [](Disk&, File& f) { return bool(f.sync()); }},
      {Call::allocate, [](Disk&, File& f) { return bool(f.allocate(0, 10)); }},
      {Call::truncate, [](Disk&, File& f) { return bool(f.truncate(0)); }},
      {Call::rename, [](Disk& d, File&) { return bool(d.rename("other", "third")); }},
      {Call::remove, [](Disk& d, File&) { return bool(d.remove("other")); }},
      {Call::make_directory, [](Disk& d, File&) { return bool(d.make_directory("dir")); }},
      {Call::sync_directory, [](Disk& d, File&) { return bool(d.sync_directory("")); }},
  };
  for (const auto& failing : changes) {
    FakeDisk medium;
    int told = 0;
    auto disk = make_latching_disk(medium.share(), [&](const Error&) { ++told; });
    auto file = *disk->open("file", OpenMode::write_new);
    REQUIRE(file->write_at(0, as_bytes("bytes")));
    REQUIRE(disk->open("other", OpenMode::write_new));
    medium.fail(failing.call, 1, Fault::io);
    CHECK_FALSE(failing.change(*disk, *file));
    CHECK(told == 1);
    for (const auto& later : changes) CHECK_FALSE(later.change(*disk, *file));
    CHECK(told == 1);
    CHECK(read_all(*file) == "bytes");  // reads go on
    CHECK(disk->open("file", OpenMode::read));
  }
}

TEST_CASE("a full disk at allocate and create, absent names and failed reads do not latch") {
  FakeDisk medium;
  auto disk = make_latching_disk(medium.share(), [](const Error&) { CHECK(false); });
  auto file = *disk->open("file", OpenMode::write_new);
  medium.fail(Call::allocate, 1, Fault::full);
  CHECK(code_of(file->allocate(0, 100)) == Errc::full);
  medium.fail(Call::create, 1, Fault::full);
  CHECK(code_of(disk->open("new", OpenMode::write_new)) == Errc::full);
  CHECK(code_of(disk->remove("absent")) == Errc::not_found);
  CHECK(code_of(disk->open("absent", OpenMode::direct)) == Errc::not_found);
  medium.fail(Call::read, 1, Fault::io);
  std::byte buffer[10];
  CHECK_FALSE(file->read_at(0, buffer));
  CHECK(file->write_at(0, as_bytes("still works")));
}

TEST_CASE("want of descriptors or memory is no failure of the disk, but for a sync") {
  for (const Call call : {Call::create, Call::write, Call::allocate, Call::rename, Call::remove}) {
    CAPTURE(static_cast<int>(call));
    FakeDisk medium;
    int failures = 0;
    auto disk = make_latching_disk(medium.share(), [&](const Error&) { ++failures; });
    auto file = *disk->open("file", OpenMode::write_new);
    medium.fail(call, 1, Fault::scarce);
    const auto act = [&]() -> Result<> {
      if (call == Call::create) {
        auto opened = disk->open("other", OpenMode::write_new);
        if (!opened) return opened.error();
        return {};
      }
      if (call == Call::write) return file->write_at(0, as_bytes("bytes"));
      if (call == Call::allocate) return file->allocate(0, 4096);
      if (call == Call::rename) return disk->rename("file", "renamed");
      return disk->remove("file");
    };
    CHECK(code_of(act()) == Errc::overloaded);
    CHECK(act());
    CHECK(failures == 0);
  }
  FakeDisk medium;
  int failures = 0;
  auto disk = make_latching_disk(medium.share(), [&](const Error&) { ++failures; });
  auto file = *disk->open("file", OpenMode::write_new);
  medium.fail(Call::sync, 1, Fault::scarce);
  CHECK(code_of(file->sync()) == Errc::io);
  CHECK_FALSE(file->sync());
  CHECK(failures == 1);
}

TEST_CASE("a write that finds the disk full is repeated once when space was given back") {
  FakeDisk medium;
  int releases = 0;
  bool available = true;
  auto release = [&] {
    ++releases;
    return std::exchange(available, false);
  };
  auto disk = make_ballast_disk(medium.share(), release);
  auto file = *disk->open("file", OpenMode::write_new);
  medium.fail(Call::write, 1, Fault::full);
  CHECK(file->write_at(0, as_bytes("bytes")));
  CHECK(read_all(*file) == "bytes");
  medium.fail(Call::write, 1, Fault::full);
  CHECK(code_of(file->write_at(0, as_bytes("other"))) == Errc::full);
  CHECK(releases == 2);
  available = true;
  medium.fail(Call::write, 1, Fault::full);
  const ConstBytes parts[] = {as_bytes("pa"), as_bytes("rts")};
  CHECK(file->write_parts(0, parts));
  CHECK(read_all(*file) == "parts");
  CHECK(releases == 3);
  available = true;
  medium.fail(Call::sync, 1, Fault::full);
  CHECK_FALSE(file->sync());  // never tried again
  CHECK(releases == 3);
}

}  // namespace
}  // namespace penstock
