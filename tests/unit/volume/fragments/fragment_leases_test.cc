// Which pins are kept, for how long, and how many.
#include "server/volume/fragments/fragment_leases.h"

#include "tests/unit/volume/fragments/fragment_fixture.h"

namespace penstock::fragment_test {

TEST_CASE("a pin that found no fragment does not keep the one that is written later") {
  using Removal = FragmentStore::Removal;
  Volume volume;
  volume.open();
  volume.clock.advance(limits::kReaderPin);
  const FragmentId id = make_id(1);
  const std::vector<FragmentId> ids{id};
  CHECK(volume.run(volume.store->pin_for_reader(ids)).value() == ids);
  REQUIRE(volume.put(id, pattern(id, 5000)));
  CHECK(volume.remove(id, Removal::unread));
  // Nor does the pin of one that was removed.
  REQUIRE(volume.put(id, pattern(id, 5000)));
  CHECK(volume.run(volume.store->pin_for_reader(ids)).value().empty());
  CHECK(code_of(volume.remove(id, Removal::unread)) == Errc::busy);
  REQUIRE(volume.remove(id));
  REQUIRE(volume.put(id, pattern(id, 5000)));
  CHECK(volume.remove(id, Removal::unread));
}

TEST_CASE("of pins there are so many; then only new ones are refused, until old ones have ended") {
  FakeClock clock;
  FragmentLeases leases(clock, 1, {});
  const auto id = [](std::uint64_t number) { return FragmentId{WriteId{7, number}, 0, {}}; };
  for (std::uint64_t n = 1; n < limits::kFragmentLeasesMax; ++n) {
    if (!leases.pin(id(n)).value()) FAIL("a pin was refused");
  }
  clock.advance(Duration(1));
  REQUIRE(leases.pin(id(0)).value());
  CHECK(code_of(leases.pin(id(limits::kFragmentLeasesMax))) == Errc::overloaded);
  CHECK(leases.pin_for_reader(id(limits::kFragmentLeasesMax)).value());  // counted apart
  CHECK(leases.pin(id(0)).value());
  clock.advance(limits::kFragmentLease - Duration(1));
  CHECK(leases.pin(id(limits::kFragmentLeasesMax)).value());
  // Those that had not ended are kept.
  ExtentRow row;
  CHECK(leases.unpinned_for(id(5), row) == limits::kFragmentLease - limits::kStartLease);
  CHECK_FALSE(leases.unpinned_for(id(0), row));
  CHECK_FALSE(leases.unpinned_for(id(limits::kFragmentLeasesMax), row));
}

TEST_CASE("a start grants no more than a commit, and no less than a reader's pin") {
  struct Row {
    int lease, reader, start, granted;
  };
  for (const Row& row : {Row{10, 3, 5, 5}, Row{4, 3, 5, 4}, Row{10, 7, 5, 7}}) {
    FakeClock clock;
    const auto seconds = [](int count) { return Duration(std::chrono::seconds(count)); };
    FragmentLeases leases(clock, 1, {seconds(row.lease), seconds(row.reader), seconds(row.start)});
    clock.advance(seconds(row.granted) - Duration(1));
    CHECK_FALSE(leases.unpinned_for(make_id(1), ExtentRow()));
    clock.advance(Duration(1));
    CHECK(leases.unpinned_for(make_id(1), ExtentRow()) == Duration(0));
  }
}

TEST_CASE("who may send from a file gets memory all the same where there is no real file") {
  Volume volume;
  volume.open();
  const FragmentId id = make_id(1);
  const std::string bytes = pattern(id, 400'000);
  REQUIRE(volume.put(id, bytes));
  const FragmentReadRequest request{id, 100, 300'000, true};
  const auto piece = volume.run(volume.store->read(request));
  REQUIRE(piece);
  CHECK(piece->fd < 0);
  CHECK(as_text(piece->bytes()) == std::string_view(bytes).substr(100, 300'000));
}

}  // namespace penstock::fragment_test
