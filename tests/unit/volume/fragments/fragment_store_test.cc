#include "server/volume/fragments/fragment_store.h"

#include <ctime>

#include "tests/fake/observed_disk.h"
#include "tests/unit/volume/fragments/fragment_fixture.h"

namespace penstock::fragment_test {

TEST_CASE("a fragment of any size is read back byte for byte, also after a restart") {
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{16'383},
        std::uint64_t{16'384}, std::uint64_t{16'385}, 128 * limits::kKiB, 128 * limits::kKiB + 1,
        limits::kMiB + 1, 16 * limits::kMiB, 16 * limits::kMiB + 1, 40 * limits::kMiB}) {
    CAPTURE(size);
    Volume volume;
    volume.open();
    const FragmentId id = make_id(1);
    const std::string bytes = pattern(id, size);
    REQUIRE(volume.put(id, bytes));
    CHECK(volume.get_all(id, size).value() == bytes);
    CHECK(volume.store->statistics().fragment_bytes == size);
    volume.reopen();
    CHECK(volume.get_all(id, size).value() == bytes);
    CHECK(volume.store->statistics().fragment_count == 1);
    CHECK(volume.disk.exists("files/01/" + to_string(id)) == (size > 16 * limits::kMiB));
    CHECK(volume.failures.empty());
  }
}

TEST_CASE("pieces of every length that the contract allows make the same fragment") {
  for (const std::size_t blocks : {1u, 3u, 7u, 8u, 64u}) {
    CAPTURE(blocks);
    Volume volume;
    volume.open();
    const FragmentId id = make_id(2);
    const std::string bytes = pattern(id, 1'234'567);
    REQUIRE(volume.put(id, bytes, blocks * limits::kBlockBytes));
    CHECK(volume.get_all(id, bytes.size()).value() == bytes);
  }
}

TEST_CASE("bytes that are not aligned in memory are stored all the same") {
  Volume volume;
  volume.open();
  const FragmentId id = make_id(3);
  const std::string bytes = pattern(id, 512 * limits::kKiB);
  auto writer = volume.run(volume.store->create(id, FragmentShape{bytes.size()})).value();
  const Buffer odd = Buffer::copy_of(as_bytes("x" + bytes)).slice(1, bytes.size());
  REQUIRE(volume.run(writer->append(odd, crcs_of(id, 0, odd.bytes()), Deadline::max())));
  REQUIRE(volume.run(writer->commit(Deadline::max())));
  CHECK(volume.get_all(id, bytes.size()).value() == bytes);
}

TEST_CASE("small fragments that come together are one call of the disk, and whole") {
  Volume volume;
  int writes = 0;
  const auto disk =
      make_observed_disk(volume.disk.share(), [&](FakeDisk::Call call, const std::string&) {
        writes += call == FakeDisk::Call::write ? 1 : 0;
      });
  volume.other_disk = disk.get();
  volume.open();
  REQUIRE(volume.put(make_id(1), pattern(make_id(1), 10)));  // makes the segment
  std::vector<std::unique_ptr<FragmentWriter>> writers;
  const auto size_of = [](std::uint64_t number) { return 60'000 + number; };
  for (std::uint64_t number = 2; number < 8; ++number) {
    const FragmentId id = make_id(number);
    writers.push_back(volume.run(volume.store->create(id, {size_of(number)})).value());
  }
  writes = 0;
  volume.worker.steps_late = 1000;  // all have come before the first write begins
  for (std::uint64_t number = 2; number < 8; ++number) {
    const FragmentId id = make_id(number);
    REQUIRE(volume.append(*writers[number - 2], id, pattern(id, size_of(number)), 0));
  }
  for (const auto& writer : writers) REQUIRE(volume.run(writer->commit(Deadline::max())));
  CHECK(writes == 1);
  for (std::uint64_t number = 2; number < 8; ++number) {
    const FragmentId id = make_id(number);
    CHECK((volume.get_all(id, size_of(number)).value() == pattern(id, size_of(number))));
  }
  writers.clear();
  volume.shut();
}

TEST_CASE("between the data of a fragment and its table are zeros, whatever the memory held") {
  Volume volume;
  volume.open();
  for (int i = 0; i < 64; ++i) {
    const Buffer dirty = volume.buffers.get(16 * limits::kKiB);
    std::memset(dirty.data(), 0x5a, dirty.size());
  }
  const FragmentId id = make_id(1);
  REQUIRE(volume.put(id, pattern(id, 5000)));
  const ExtentRow row = volume.row(id);
  const auto file = volume.disk.open("segments/00000001", OpenMode::read).value();
  std::string rest(2 * kGranuleBytes - 5000, 'x');
  REQUIRE(file->read_at(row.offset + 5000, std::as_writable_bytes(std::span(rest))));
  CHECK(rest == std::string(rest.size(), '\0'));
}

TEST_CASE("a range is exactly the bytes asked for, wherever it begins and ends") {
  const std::uint64_t block = limits::kBlockBytes;
  for (const std::uint64_t size :
       {3 * block + 100, FragmentReadRequest::kBytesMax + 3 * block + 5}) {
    Volume volume;
    volume.open();
    const FragmentId id = make_id(4);
    const std::string bytes = pattern(id, size);
    REQUIRE(volume.put(id, bytes));
    for (const std::uint64_t offset :
         {std::uint64_t{0}, std::uint64_t{1}, block - 1, block, block + 1, 3 * block, size - 1}) {
      for (const std::uint64_t length : {std::uint64_t{1}, std::uint64_t{2}, block, block + 1,
                                         size - offset, FragmentReadRequest::kBytesMax}) {
        CAPTURE(size);
        CAPTURE(offset);
        CAPTURE(length);
        const auto got = volume.get(id, offset, length);
        if (length > FragmentReadRequest::kBytesMax || offset + length > size) {
          CHECK(code_of(got) == Errc::invalid);
          continue;
        }
        CHECK(got.value() == bytes.substr(offset, length));
        const FragmentReadRequest request{id, offset, length, false};
        const auto now = volume.store->read_now(request);
        REQUIRE(now);
        CHECK(as_text(now->value().bytes()) == bytes.substr(offset, length));
      }
    }
    CHECK(code_of(volume.get(id, 0, 0)) == Errc::invalid);
    CHECK(code_of(volume.get(id, ~std::uint64_t{0}, 1)) == Errc::invalid);
    CHECK(code_of(volume.get(id, size, 1)) == Errc::invalid);
  }
}

TEST_CASE("with checksums all blocks come that the range touches") {
  const std::uint64_t block = limits::kBlockBytes;
  Volume volume;
  volume.open();
  const FragmentId id = make_id(4);
  const std::string bytes = pattern(id, 3 * block + 100);
  REQUIRE(volume.put(id, bytes));
  struct Range {
    std::uint64_t offset, length, from, to;
  };
  for (const Range range : {Range{block, 1, block, 2 * block}, Range{block - 1, 2, 0, 2 * block},
                            Range{3 * block + 5, 7, 3 * block, 3 * block + 100},
                            Range{1, 3 * block + 99, 0, 3 * block + 100}}) {
    FragmentReadRequest request{id, range.offset, range.length, false};
    request.with_checksums = true;
    const auto piece = volume.run(volume.store->read(request));
    REQUIRE(piece);
    const std::string whole = bytes.substr(range.from, range.to - range.from);
    CHECK(as_text(piece->bytes()) == whole);
    CHECK(piece->block_crcs == crcs_of(id, range.from, as_bytes(whole)));
  }
}

TEST_CASE("reading at once answers from memory or not at all") {
  Volume volume;
  volume.open();
  const FragmentId id = make_id(5);
  REQUIRE(volume.put(id, pattern(id, 100'000)));
  const FragmentReadRequest request{id, 10, 20, true};
  CHECK_FALSE(volume.store->read_now(request));  // its table was never read
  REQUIRE(volume.get(id, 0, 1));
  CHECK(volume.store->read_now(request));
  volume.disk.set_cold(true);
  CHECK_FALSE(volume.store->read_now(request));
  CHECK(volume.get(id, 10, 20));
  const FragmentReadRequest absent{make_id(6), 0, 1, false};
  CHECK_FALSE(volume.store->read_now(absent));
  CHECK(code_of(volume.get(make_id(6), 0, 1)) == Errc::not_found);
}

TEST_CASE("only the whole is visible: nothing before the commit, nothing of a dropped writer") {
  Volume volume;
  volume.open();
  const FragmentId keep = make_id(1);
  REQUIRE(volume.put(keep, pattern(keep, 5000)));
  const std::uint64_t free = volume.store->statistics().segment_free_bytes;
  for (const std::uint64_t size : {std::uint64_t{9000}, 3 * limits::kMiB, 20 * limits::kMiB}) {
    const FragmentId id = make_id(2);
    auto writer = volume.run(volume.store->create(id, FragmentShape{size})).value();
    REQUIRE(volume.append(*writer, id, pattern(id, size), 0));
    CHECK(code_of(volume.get(id, 0, 1)) == Errc::not_found);
    writer.reset();
    volume.settle();
    CHECK(code_of(volume.get(id, 0, 1)) == Errc::not_found);
    CHECK(volume.store->statistics().segment_free_bytes == free);
    CHECK(volume.store->statistics().fragment_count == 1);
  }
  for (const std::string& name : volume.disk.files()) CHECK(name.starts_with("segments/"));
}

TEST_CASE("a writer takes what was announced, no less and no more") {
  Volume volume;
  volume.open();
  const FragmentId id = make_id(1);
  const std::string bytes = pattern(id, 40'000);
  auto writer = volume.run(volume.store->create(id, FragmentShape{30'000})).value();
  CHECK(code_of(volume.append(*writer, id, bytes, 0)) == Errc::invalid);
  CHECK(code_of(volume.run(writer->commit(Deadline::max()))) == Errc::invalid);
  const Buffer block = Buffer::copy_of(as_bytes(bytes).first(16'384));
  CHECK(code_of(volume.run(writer->append(block, {1, 2}, Deadline::max()))) == Errc::invalid);
  CHECK(volume.append(*writer, id, bytes.substr(0, 30'000), 0));
  CHECK(code_of(volume.append(*writer, id, "x", 30'000)) == Errc::invalid);
  CHECK(volume.run(writer->commit(Deadline::max())));
  CHECK(volume.run(writer->commit(Deadline::max())));  // again: the same answer
  CHECK(code_of(volume.append(*writer, id, "x", 30'000)) == Errc::invalid);
  CHECK(volume.get_all(id, 30'000).value() == bytes.substr(0, 30'000));
}

TEST_CASE("the same bytes under the same id replace the fragment, other bytes are refused") {
  for (const std::uint64_t size : {std::uint64_t{70'000}, 20 * limits::kMiB}) {
    Volume volume;
    volume.open();
    const FragmentId id = make_id(1);
    const std::string bytes = pattern(id, size);
    REQUIRE(volume.put(id, bytes));
    const std::uint64_t free = volume.store->statistics().segment_free_bytes;
    REQUIRE(volume.get(id, 0, 1));
    REQUIRE(volume.put(id, bytes));
    CHECK(volume.store->statistics().fragment_count == 1);
    CHECK(volume.store->statistics().segment_free_bytes == free);
    CHECK(code_of(volume.put(id, pattern(make_id(2), size))) == Errc::invalid);
    volume.settle();
    CHECK(volume.store->statistics().segment_free_bytes == free);
    CHECK(volume.get_all(id, size).value() == bytes);
    CHECK(volume.failures.empty());
    volume.reopen();
    CHECK(volume.get_all(id, size).value() == bytes);
  }
}

TEST_CASE("what is removed is gone, and its space is used again") {
  Volume volume(4 * limits::kMiB);
  volume.open();
  for (std::uint64_t round = 0; round < 20; ++round) {
    const FragmentId id = make_id(round);
    const std::string bytes = pattern(id, 3 * limits::kMiB);
    REQUIRE(volume.put(id, bytes));
    CHECK(volume.get_all(id, bytes.size()).value() == bytes);
    REQUIRE(volume.remove(id));
    CHECK(code_of(volume.get(id, 0, 1)) == Errc::not_found);
    REQUIRE(volume.remove(id));  // absent: success
  }
  CHECK(volume.store->statistics().segment_count == 1);
  CHECK(volume.store->statistics().segment_free_bytes == 4 * limits::kMiB);
  const FragmentId big = make_id(99);
  REQUIRE(volume.put(big, pattern(big, 5 * limits::kMiB)));
  CHECK(volume.disk.files().size() == 2);
  REQUIRE(volume.remove(big));
  CHECK(volume.disk.files().size() == 1);
}

TEST_CASE("leases: a commit and a pin keep a fragment for a day, a start for two hours") {
  using Removal = FragmentStore::Removal;
  constexpr Duration kDay = limits::kFragmentLease;
  Volume volume;
  volume.open();
  const FragmentId id = make_id(1);
  const FragmentId absent = make_id(2);
  REQUIRE(volume.put(id, pattern(id, 5000)));
  CHECK(code_of(volume.remove(id, Removal::unpinned)) == Errc::busy);
  volume.clock.advance(kDay);
  CHECK_FALSE(volume.run(volume.store->list(std::nullopt, 10)).value().at(0).pinned);

  const std::vector<FragmentId> ids{id, absent};
  CHECK(volume.run(volume.store->pin(ids)).value() == std::vector<FragmentId>{absent});
  CHECK(volume.run(volume.store->list(std::nullopt, 10)).value().at(0).pinned);
  volume.clock.advance(kDay - Duration(1));
  CHECK(code_of(volume.remove(id, Removal::unpinned)) == Errc::busy);
  volume.clock.advance(Duration(1));
  CHECK_FALSE(volume.run(volume.store->list(std::nullopt, 10)).value().at(0).pinned);

  volume.reopen();
  volume.clock.advance(Duration(limits::kStartLease) - Duration(1));
  CHECK(code_of(volume.remove(id, Removal::unpinned)) == Errc::busy);
  volume.clock.advance(Duration(1));
  CHECK(volume.remove(id, Removal::unpinned));
  CHECK(code_of(volume.get(id, 0, 1)) == Errc::not_found);
}

TEST_CASE("the lease of a commit begins at the commit, however long the volume has been open") {
  Volume volume;
  volume.open();
  volume.clock.advance(limits::kFragmentLease + std::chrono::hours(1));
  const FragmentId id = make_id(1);
  REQUIRE(volume.put(id, pattern(id, 5000)));
  CHECK(volume.run(volume.store->list(std::nullopt, 10)).value().at(0).pinned);
  CHECK(code_of(volume.remove(id, FragmentStore::Removal::unpinned)) == Errc::busy);
}

TEST_CASE("a reader's pin keeps a fragment from hints for a while, a lease does not") {
  using Removal = FragmentStore::Removal;
  constexpr Duration kPin = limits::kReaderPin;
  Volume volume;
  volume.open();
  const FragmentId id = make_id(1);
  REQUIRE(volume.put(id, pattern(id, 5000)));
  CHECK(code_of(volume.remove(id, Removal::unread)) == Errc::busy);  // after a start: perhaps
  volume.clock.advance(kPin);
  const std::vector<FragmentId> ids{id};
  CHECK(volume.run(volume.store->pin_for_reader(ids)).value().empty());
  volume.clock.advance(kPin - Duration(1));
  CHECK(code_of(volume.remove(id, Removal::unread)) == Errc::busy);
  volume.clock.advance(Duration(1));
  CHECK(volume.remove(id, Removal::unread));
  CHECK(volume.run(volume.store->pin_for_reader(ids)).value() == ids);
}

TEST_CASE("a removal that meets a pin either sees its lease or lets it miss the fragment") {
  Volume volume;
  volume.open();
  const FragmentId id = make_id(1);
  REQUIRE(volume.put(id, pattern(id, 5000)));
  volume.clock.advance(limits::kFragmentLease);
  volume.worker.at_once = true;
  volume.rows.after_get = [&volume, id] {
    boost::asio::io_context other;
    auto removal = volume.store->remove(id, FragmentStore::Removal::unpinned);
    (void)run_task(other, volume.clock, std::move(removal));
  };
  const std::vector<FragmentId> ids{id};
  const auto missing = volume.run(volume.store->pin(ids)).value();
  CHECK_FALSE(volume.rows.after_get);  // it did meet the pin
  CHECK(missing.empty() == volume.get(id, 0, 1).has_value());
}

TEST_CASE("a fragment tells whose it is, and how long it has been without a lease") {
  Volume volume;
  volume.open();
  const FragmentId id = make_id(1);
  const FragmentOwner owner{BucketId{7}, 16, "key", std::string(32, 'u')};
  auto writer = volume.run(volume.store->create(id, FragmentShape{0, owner})).value();
  REQUIRE(volume.run(writer->commit(Deadline::max())));
  volume.reopen();
  volume.clock.advance(limits::kStartLease + std::chrono::minutes(5));
  const auto entries = volume.run(volume.store->list(std::nullopt, 10)).value();
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].owner == owner);
  CHECK(entries[0].unpinned == std::chrono::minutes(5));
}

TEST_CASE("a list goes through all fragments in steps") {
  Volume volume;
  volume.open();
  std::vector<FragmentId> ids;
  for (std::uint64_t n = 1; n <= 25; ++n) {
    ids.push_back(make_id(n));
    REQUIRE(volume.put(ids.back(), pattern(ids.back(), n * 1000)));
  }
  std::sort(ids.begin(), ids.end());
  std::vector<FragmentId> listed;
  std::optional<FragmentId> after;
  while (true) {
    const auto page = volume.run(volume.store->list(after, 10)).value();
    for (const FragmentEntry& entry : page) {
      listed.push_back(entry.id);
      CHECK(entry.data_bytes == entry.id.write_id.low * 1000);
    }
    if (page.size() < 10) break;
    after = page.back().id;
  }
  CHECK(listed == ids);
}

TEST_CASE("600,000 rows are taken in by an open within a second of processor time") {
  Volume volume(limits::kSegmentBytes);
  volume.options.segment_bytes = limits::kSegmentBytes;
  REQUIRE(volume.disk.make_directory("segments"));
  constexpr std::uint64_t kRows = 600'000;
  const std::uint64_t per_segment = limits::kSegmentBytes / (32 * limits::kKiB);
  for (std::uint64_t s = 0; s <= kRows / per_segment; ++s) {
    char name[32];
    std::snprintf(name, sizeof name, "segments/%08x", static_cast<unsigned>(s + 1));
    auto file = volume.disk.open(name, OpenMode::write_new).value();
    REQUIRE(file->allocate(0, limits::kSegmentBytes));
  }
  for (std::uint64_t n = 0; n < kRows; ++n) {
    ExtentRow row;
    row.segment = static_cast<std::uint32_t>(n / per_segment + 1);
    row.offset = n % per_segment * 32 * limits::kKiB;
    row.data_bytes = 28 * limits::kKiB;
    volume.rows.rows.emplace_hint(volume.rows.rows.end(),
                                  FragmentId{WriteId{1, n}, 0, Generation{1}}, encode(row));
  }
  const std::clock_t begun = std::clock();
  volume.open();
  const double seconds = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  MESSAGE("open with 600,000 rows: " << seconds << " s");
#if defined(__OPTIMIZE__) && !defined(PENSTOCK_DEAR_ASSERTS)  // as shipped
  CHECK(seconds < 1);
#endif
  CHECK(volume.store->statistics().fragment_count == kRows);
}

}  // namespace penstock::fragment_test
