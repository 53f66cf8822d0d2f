// What the fragment store makes of damage, failing calls, full disks and power cuts.
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "server/volume/fragments/fragment_file.h"
#include "tests/fake/observed_disk.h"
#include "tests/unit/volume/fragments/fragment_fixture.h"

namespace penstock::fragment_test {
namespace {

// Every byte that a region of a fragment covers, in its file: [from, to).
struct Region {
  const char* name;
  std::uint64_t from, to;
  bool harmless;  // nothing that is read covers it
};

std::string file_of(const ExtentRow& row, const FragmentId& id) {
  if (row.place == FragmentPlace::file) return "files/01/" + to_string(id);
  char name[32];
  std::snprintf(name, sizeof name, "segments/%08x", static_cast<unsigned>(row.segment));
  return name;
}

}  // namespace

TEST_CASE("the space of a fragment is free when its row is gone, and not before") {
  Volume volume(limits::kMiB);
  volume.open();
  const auto bytes_of = [](std::uint64_t number) { return pattern(make_id(number), 300'000); };
  for (const std::uint64_t number : {1, 2, 3}) {  // the segment has no room for a fourth
    REQUIRE(volume.put(make_id(number), bytes_of(number)));
  }
  volume.rows.refusal = fail(Errc::overloaded, "the volume's queue is full");
  CHECK(!volume.remove(make_id(1)));
  REQUIRE(volume.put(make_id(4), bytes_of(4)));
  const auto got = volume.get_all(make_id(1), 300'000);
  REQUIRE(got);
  CHECK(*got == bytes_of(1));
}

TEST_CASE("a sync serves who waited when it began; who comes meanwhile waits for the next one") {
  boost::asio::io_context io;
  PostWorker worker(io);
  FakeDisk disk;
  std::shared_ptr<FragmentFile> file;
  int syncs = 0, served_first = 0, served_second = 0;
  const auto observed =
      make_observed_disk(disk.share(), [&](FakeDisk::Call call, const std::string&) {
        if (call != FakeDisk::Call::sync || ++syncs != 1) return;
        file->sync_soon(
            worker, [] { return true; }, [&](const Result<>&) { served_second = syncs; });
      });
  auto opened = observed->open("file", OpenMode::write_new);
  REQUIRE(opened);
  file = std::make_shared<FragmentFile>(std::move(*opened));
  file->sync_soon(
      worker, [] { return true; }, [&](const Result<>&) { served_first = syncs; });
  io.run();
  CHECK(served_first == 1);
  CHECK(served_second == 2);
}

TEST_CASE("a flipped bit in what goes out of a file is corrupt, wherever in the piece it lies") {
  std::string where = (std::filesystem::temp_directory_path() / "penstock-XXXXXX").string();
  REQUIRE(::mkdtemp(where.data()) != nullptr);
  {
    const auto disk = *make_posix_disk(where);
    Volume volume;
    FragmentStoreParts parts{*disk,          volume.rows,   volume.clock,
                             volume.random,  volume.worker, volume.worker,
                             volume.buffers, volume.room,   [](const Error&) {}};
    auto opened = FragmentStore::open(std::move(parts), volume.options);
    REQUIRE(opened);
    volume.store = std::move(*opened);
    const FragmentId id = make_id(1);
    const std::string bytes = pattern(id, 300'000);
    REQUIRE(volume.put(id, bytes));
    const FragmentReadRequest request{id, 0, bytes.size(), true};
    const auto whole = volume.run(volume.store->read(request));
    REQUIRE(whole);
    REQUIRE(whole->pages);
    const auto row = decode_extent_row(volume.rows.rows.at(id));
    REQUIRE(row);
    std::fstream file(where + "/" + file_of(*row, id),
                      std::ios::in | std::ios::out | std::ios::binary);
    REQUIRE(file);
    for (const std::size_t at : {std::size_t{0}, std::size_t{65'536}, bytes.size() - 1}) {
      CAPTURE(at);
      const auto put = [&](char byte) {
        file.seekp(static_cast<std::streamoff>(row->offset + at));
        file.put(byte);
        file.flush();
      };
      put(static_cast<char>(bytes[at] ^ 1));
      CHECK(code_of(volume.run(volume.store->read(request))) == Errc::corrupt);
      const auto now = volume.store->read_now(request);
      CHECK((!now || code_of(*now) == Errc::corrupt));
      put(bytes[at]);
    }
    CHECK(volume.run(volume.store->read(request)));
    volume.shut();
  }
  std::filesystem::remove_all(where);
}

TEST_CASE("a flipped bit anywhere in what is read is corrupt, never a wrong byte") {
  for (const std::uint64_t size : {std::uint64_t{50'001}, 17 * limits::kMiB + 1}) {
    const FragmentId id = make_id(1);
    const std::string bytes = pattern(id, size);
    const FragmentGeometry geometry{size};
    const std::uint64_t tail = geometry.tail_offset();
    const std::uint64_t end = geometry.total_bytes();
    for (const Region& region :
         {Region{"data", 0, size, false}, Region{"padding", size, tail, true},
          Region{"table", tail, tail + geometry.blocks() * 4, false},
          Region{"zeros", tail + geometry.blocks() * 4, end - kFooterBytes, false},
          Region{"footer", end - kFooterBytes, end, false}}) {
      CAPTURE(region.name);
      Volume volume;
      volume.open();
      REQUIRE(volume.put(id, bytes));
      const ExtentRow row = volume.row(id);
      for (int round = 0; round < 8; ++round) {
        const std::uint64_t at =
            region.from + (round == 0   ? 0
                           : round == 1 ? region.to - region.from - 1
                                        : volume.random.below(region.to - region.from));
        const auto bit = static_cast<unsigned>(volume.random.below(8));
        volume.disk.flip_bit(file_of(row, id), row.offset + at, bit);
        volume.reopen();
        const auto got = volume.get_all(id, size);
        if (region.harmless) {
          CHECK(got.value() == bytes);
        } else {
          CHECK(code_of(got) == Errc::corrupt);
          CHECK(volume.store->statistics().corrupt_count == 1);
        }
        volume.disk.flip_bit(file_of(row, id), row.offset + at, bit);
      }
      volume.reopen();
      CHECK(volume.get_all(id, size).value() == bytes);
      CHECK(volume.failures.empty());
    }
  }
}

TEST_CASE("damage in one block leaves the others readable, at once and on the worker") {
  Volume volume;
  volume.open();
  const FragmentId id = make_id(1);
  const std::string bytes = pattern(id, 100'000);
  REQUIRE(volume.put(id, bytes));
  REQUIRE(volume.get(id, 0, 1));
  const ExtentRow row = volume.row(id);
  volume.disk.flip_bit(file_of(row, id), row.offset + 40'000, 3);  // block 2
  const FragmentReadRequest damaged{id, 40'100, 10, false};
  const FragmentReadRequest sound{id, 50'000, 10, false};
  CHECK(volume.store->read_now(sound)->value().length == 10);
  CHECK(code_of(*volume.store->read_now(damaged)) == Errc::corrupt);
  CHECK_FALSE(volume.store->read_now(sound));  // what is known of it is read again from the disk
  CHECK(code_of(volume.get(id, 40'100, 10)) == Errc::corrupt);
  CHECK(volume.get(id, 50'000, 10).value() == bytes.substr(50'000, 10));
}

TEST_CASE("bytes of another fragment under a row are refused") {
  Volume volume;
  volume.open();
  const FragmentId a = make_id(1);
  const FragmentId b = make_id(2);
  REQUIRE(volume.put(a, pattern(a, 30'000)));
  REQUIRE(volume.put(b, pattern(b, 30'000)));
  std::swap(volume.rows.rows[a], volume.rows.rows[b]);  // a misdirected write of either kind
  volume.reopen();
  CHECK(code_of(volume.get(a, 0, 10)) == Errc::corrupt);
  CHECK(code_of(volume.get(b, 0, 10)) == Errc::corrupt);
}

TEST_CASE("a lost segment or file is not found, and nothing is written into its place") {
  Volume volume(limits::kMiB);
  volume.open();
  const FragmentId small = make_id(1);
  const FragmentId big = make_id(257);
  REQUIRE(volume.put(small, pattern(small, 30'000)));
  REQUIRE(volume.put(big, pattern(big, 2 * limits::kMiB)));
  volume.disk.lose_file("segments/00000001");
  volume.disk.lose_file("files/01/" + to_string(big));
  volume.reopen();
  CHECK(code_of(volume.get(small, 0, 10)) == Errc::not_found);
  CHECK(code_of(volume.get(big, 0, 10)) == Errc::not_found);
  const FragmentId other = make_id(3);
  REQUIRE(volume.put(other, pattern(other, 30'000)));
  CHECK(volume.row(other).segment == 2);
  REQUIRE(volume.remove(small));
  REQUIRE(volume.remove(big));
  CHECK(volume.get_all(other, 30'000).value() == pattern(other, 30'000));
}

TEST_CASE("what does not look like a segment or a large file is left alone and never used") {
  Volume volume(limits::kMiB);
  volume.open();
  const FragmentId small = make_id(1);
  const FragmentId big = make_id(257);
  REQUIRE(volume.put(small, pattern(small, 30'000)));
  REQUIRE(volume.put(big, pattern(big, 2 * limits::kMiB)));
  const FragmentStatistics before = volume.store->statistics();
  volume.shut();
  std::string almost = to_string(big);
  almost[40] = 'g';
  REQUIRE(volume.disk.make_directory("files/lost+found"));
  const std::string foreign[] = {
      "segments/notes",         "segments/000000fg",     "segments/00000000",
      "segments/abc",           "segments/000000ff.old", "files/readme",
      "files/lost+found/x.tmp", "files/01/notes",        "files/01/" + almost};
  for (const std::string& name : foreign) {
    auto file = volume.disk.open(name, OpenMode::write_new);
    REQUIRE(file);
    REQUIRE((*file)->allocate(0, 4 * limits::kMiB));
  }
  volume.open();
  for (const std::string& name : foreign) {
    CAPTURE(name);
    CHECK(volume.disk.exists(name));
  }
  const FragmentStatistics now = volume.store->statistics();
  CHECK(now.segment_count == before.segment_count);
  CHECK(now.segment_free_bytes == before.segment_free_bytes);
  CHECK(volume.get_all(small, 30'000).value() == pattern(small, 30'000));
  CHECK(volume.get_all(big, 2 * limits::kMiB).value() == pattern(big, 2 * limits::kMiB));
  const FragmentId next = make_id(3);
  REQUIRE(volume.put(next, pattern(next, 1'020'000)));
  CHECK(volume.row(next).segment == 2);
}

TEST_CASE("a segment that was cut short loses its own fragments only") {
  Volume volume(limits::kMiB);
  volume.open();
  for (std::uint64_t n = 1; n <= 10; ++n) {
    REQUIRE(volume.put(make_id(n), pattern(make_id(n), 60'000)));
  }
  auto file = volume.disk.open("segments/00000001", OpenMode::append).value();
  REQUIRE(file->truncate(5 * 69'632 + 100));
  volume.reopen();
  for (std::uint64_t n = 1; n <= 10; ++n) {
    const auto got = volume.get_all(make_id(n), 60'000);
    if (n <= 5) {
      CHECK(got.value() == pattern(make_id(n), 60'000));
    } else {
      CHECK(code_of(got) == Errc::corrupt);
    }
  }
}

TEST_CASE("two rows over one extent close the volume at its start") {
  Volume volume;
  volume.open();
  REQUIRE(volume.put(make_id(1), pattern(make_id(1), 30'000)));
  volume.rows.rows[make_id(2)] = volume.rows.rows[make_id(1)];
  volume.shut();
  CHECK(code_of(volume.try_open()) == Errc::corrupt);
}

TEST_CASE("any failed change is final: reported once, and every later call is unavailable") {
  using Call = FakeDisk::Call;
  using Fault = FakeDisk::Fault;
  struct Row {
    Call call;
    Fault fault;
    std::uint64_t size;
  };
  const std::uint64_t big = 3 * limits::kMiB;
  for (const Row& row :
       {Row{Call::write, Fault::io, 5000}, Row{Call::write, Fault::full, 5000},
        Row{Call::write, Fault::short_write, 900'000}, Row{Call::sync, Fault::io, 5000},
        Row{Call::write, Fault::io, big}, Row{Call::sync, Fault::io, big},
        Row{Call::rename, Fault::io, big}, Row{Call::sync_directory, Fault::io, big},
        Row{Call::allocate, Fault::full, big}, Row{Call::create, Fault::io, big}}) {
    CAPTURE(static_cast<int>(row.call));
    CAPTURE(row.size);
    Volume volume(2 * limits::kMiB);
    volume.open();
    const FragmentId old = make_id(1);
    const FragmentId id = make_id(2);
    REQUIRE(volume.put(old, pattern(old, 5000)));
    volume.disk.fail(row.call, 1, row.fault);
    CHECK_FALSE(volume.put(id, pattern(id, row.size)));
    CHECK(volume.failures.size() == 1);
    CHECK(code_of(volume.put(id, pattern(id, row.size))) == Errc::unavailable);
    CHECK(code_of(volume.get(old, 0, 10)) == Errc::unavailable);
    CHECK(code_of(volume.remove(old)) == Errc::unavailable);
    const FragmentReadRequest request{old, 0, 10, false};
    CHECK(code_of(*volume.store->read_now(request)) == Errc::unavailable);
    CHECK(volume.failures.size() == 1);
  }
}

TEST_CASE(
    "a write for which memory was short fails its fragment, which is not there, and no other") {
  for (const std::uint64_t size : {std::uint64_t{100'000}, 2 * limits::kMiB}) {
    CAPTURE(size);
    Volume volume;
    volume.open();
    const FragmentId first = make_id(1), second = make_id(2);
    REQUIRE(volume.put(first, pattern(first, 100)));
    volume.disk.fail(FakeDisk::Call::write, 1, FakeDisk::Fault::scarce);
    CHECK(code_of(volume.put(second, pattern(second, size))) == Errc::overloaded);
    CHECK(volume.failures.empty());
    CHECK(code_of(volume.get(second, 0, 1)) == Errc::not_found);
    REQUIRE(volume.put(second, pattern(second, size)));
    CHECK((volume.get_all(second, size).value() == pattern(second, size)));
  }
}

TEST_CASE("a failed read is an error of that read, not of the volume") {
  Volume volume;
  volume.open();
  const FragmentId id = make_id(1);
  REQUIRE(volume.put(id, pattern(id, 5000)));
  REQUIRE(volume.get(id, 0, 10));
  volume.disk.fail(FakeDisk::Call::read, 1, FakeDisk::Fault::io);
  CHECK(code_of(volume.get(id, 0, 10)) == Errc::io);
  CHECK(volume.get(id, 0, 10).value() == pattern(id, 10));
  CHECK(volume.failures.empty());
}

TEST_CASE("a row that was certainly not written frees the space at once") {
  for (const std::uint64_t size : {std::uint64_t{5000}, 3 * limits::kMiB}) {
    Volume volume(2 * limits::kMiB);
    volume.open();
    REQUIRE(volume.put(make_id(1), pattern(make_id(1), 5000)));
    const std::uint64_t free = volume.store->statistics().segment_free_bytes;
    for (const Errc code : {Errc::overloaded, Errc::full, Errc::unavailable}) {
      volume.rows.refusal = fail(code, "test");
      CHECK(code_of(volume.put(make_id(2), pattern(make_id(2), size))) == code);
      volume.settle();
      CHECK(volume.store->statistics().segment_free_bytes == free);
      CHECK(volume.disk.files().size() == 1);
    }
    // Of a row that may have been written the space is kept until the next start knows.
    volume.rows.refusal = fail(Errc::io, "test");
    CHECK_FALSE(volume.put(make_id(3), pattern(make_id(3), 5000)));
    CHECK(volume.store->statistics().segment_free_bytes < free);
    volume.reopen();
    CHECK(volume.store->statistics().segment_free_bytes == free);
  }
}

TEST_CASE("a full volume takes nothing new, says so, and stays open for the rest") {
  Volume volume(limits::kMiB);
  volume.open();
  const FragmentId id = make_id(1);
  REQUIRE(volume.put(id, pattern(id, 30'000)));
  SUBCASE("by the volume's rule") {
    volume.room.accepts = false;
    CHECK(code_of(volume.put(make_id(2), pattern(make_id(2), 10))) == Errc::full);
  }
  SUBCASE("because the disk has no room for a segment or a file") {
    volume.disk.set_capacity(limits::kMiB + 100'000);
    CHECK(code_of(volume.put(make_id(2), pattern(make_id(2), 2 * limits::kMiB))) == Errc::full);
    Result<> last;
    for (std::uint64_t n = 3; n < 100 && last; ++n) {
      last = volume.put(make_id(n), pattern(make_id(n), 60'000));
    }
    CHECK(code_of(last) == Errc::full);
  }
  CHECK(volume.failures.empty());
  CHECK(volume.get_all(id, 30'000).value() == pattern(id, 30'000));
  REQUIRE(volume.remove(id));
}

namespace {

// One put, cut at its `nth` change of the disk; returns false once the put needs fewer changes.
bool cut_and_check(std::uint64_t size, std::uint64_t nth, std::uint64_t seed) {
  CAPTURE(size);
  CAPTURE(nth);
  CAPTURE(seed);
  Volume volume(2 * limits::kMiB);
  volume.random = SeededRandom(seed);
  volume.worker.steps_late = seed % 2 == 0 ? 3 : 0;  // row before bytes, bytes before row
  volume.open();
  const FragmentId old = make_id(1);
  const FragmentId gone = make_id(2);
  const FragmentId id = make_id(3);
  const std::string old_bytes = pattern(old, 300'000);
  const std::string bytes = pattern(id, size);
  REQUIRE(volume.put(gone, pattern(gone, 400'000)));
  REQUIRE(volume.put(old, old_bytes));
  REQUIRE(volume.remove(gone));  // stale bytes where the new fragment may go

  volume.disk.stop_at_change(nth);
  const bool acknowledged = volume.put(id, bytes).has_value();
  const bool was_cut = volume.disk.is_stopped();
  volume.crash();
  volume.open();

  REQUIRE(volume.get_all(old, old_bytes.size()).value() == old_bytes);
  const auto got = volume.get_all(id, size);
  if (acknowledged) REQUIRE(got);
  if (got) {
    REQUIRE(*got == bytes);
  } else {
    const Errc code = got.error().code;
    REQUIRE((code == Errc::not_found || code == Errc::corrupt));
  }
  // The same put again works, whatever was left; and then all space is accounted for.
  REQUIRE(volume.put(id, bytes));
  REQUIRE(volume.get_all(id, size).value() == bytes);
  REQUIRE(volume.remove(id));
  REQUIRE(volume.remove(old));
  volume.settle();
  const FragmentStatistics now = volume.store->statistics();
  REQUIRE(now.fragment_count == 0);
  REQUIRE(now.fragment_bytes == 0);
  // A segment whose making was cut may be shorter; what there is is free.
  std::uint64_t segment_bytes = 0;
  for (const std::string& name : volume.disk.files()) {
    REQUIRE(name.starts_with("segments/"));
    segment_bytes += volume.disk.file_size(name).value();
  }
  REQUIRE(now.segment_free_bytes == segment_bytes);
  return was_cut;
}

}  // namespace

TEST_CASE("a power cut at any change of a put leaves the whole fragment or none of it") {
  for (const std::uint64_t size :
       {std::uint64_t{1}, std::uint64_t{100'000}, std::uint64_t{500'001}, 3 * limits::kMiB + 7}) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      std::uint64_t nth = 1;
      while (cut_and_check(size, nth, seed)) ++nth;
      REQUIRE(nth > 1);
      REQUIRE(nth < 50);
    }
  }
}

TEST_CASE("a power cut during a removal leaves the fragment or its free space") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    const bool big = seed % 2 == 0;
    Volume volume(2 * limits::kMiB);
    volume.random = SeededRandom(seed);
    volume.open();
    const FragmentId id = make_id(1);
    const std::string bytes = pattern(id, big ? 3 * limits::kMiB : 100'000);
    REQUIRE(volume.put(id, bytes));
    if (seed % 4 < 2) {
      volume.disk.stop_at_change(1);
      CHECK_FALSE(volume.put(make_id(2), "x"));  // the power is gone before the row is erased
    } else {
      volume.rows.puts_until_cut = 1;  // ... or right after
    }
    (void)volume.remove(id);
    volume.crash();
    volume.open();
    if (volume.rows.rows.contains(id)) {
      REQUIRE(volume.get_all(id, bytes.size()).value() == bytes);
    } else {
      REQUIRE(volume.get(id, 0, 1).error().code == Errc::not_found);
      for (const std::string& name : volume.disk.files()) REQUIRE(name.starts_with("segments/"));
    }
  }
}

TEST_CASE("an old copy of the disk under newer rows is noticed by the footers") {
  Volume volume;
  volume.open();
  REQUIRE(volume.put(make_id(1), pattern(make_id(1), 100'000)));
  const auto old = volume.disk.snapshot();
  REQUIRE(volume.remove(make_id(1)));
  const FragmentId id = make_id(2);
  REQUIRE(volume.put(id, pattern(id, 100'000)));
  volume.shut();
  volume.disk.restore(*old);
  volume.open();
  CHECK(code_of(volume.get(id, 0, 10)) == Errc::corrupt);
}

}  // namespace penstock::fragment_test
