// What libraries throw ends one call, or one volume, and leaves nobody waiting.
#include <new>
#include <stdexcept>

#include "penstock/caught.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

// A clock that has had enough.
class ThrowingClock final : public Clock {
 public:
  explicit ThrowingClock(FakeClock& clock) : clock_(clock) {}
  WallTime wall() const override {
    if (throwing && passes-- == 0) throw std::runtime_error("planted");
    return clock_.wall();
  }
  BootTime boot() const override { return clock_.boot(); }
  Awaitable<void> sleep_until(BootTime when) override { return clock_.sleep_until(when); }
  bool throwing = false;
  mutable int passes = 0;  // before it throws

 private:
  FakeClock& clock_;
};

TEST_CASE("A disk that throws from a changing call closes its volume") {
  VolumeHarness harness;
  REQUIRE(harness.format());
  bool throwing = false;
  auto observer = [&throwing](FakeDisk::Call call, const std::string&) {
    if (throwing && call == FakeDisk::Call::sync) throw std::bad_alloc();
  };
  harness.open_observed(observer, harness.workers());
  REQUIRE(harness.run(harness.volume->set_epochs({GroupEpoch{kGroup, Epoch{1}, {}}})));
  const auto kept = VolumeHarness::object("kept");
  const Ballot at = harness.ballot(1);
  harness.store(kept, at, VolumeHarness::value(1));
  const std::uint64_t before = exceptions_caught();
  throwing = true;
  const auto failed =
      harness.accept(VolumeHarness::object("b"), harness.ballot(2), VolumeHarness::value(2));
  CHECK(code_of(failed) == Errc::io);
  CHECK(exceptions_caught() > before);
  CHECK(harness.volume->status().state == VolumeStatus::State::closed);
  CHECK(harness.volume->status().reason.find("bad_alloc") != std::string::npos);
  CHECK(harness.volume->is_disk_sound());
  throwing = false;
  CHECK(code_of(harness.read(kept)) == Errc::unavailable);
  harness.close();
  harness.open();
  const auto row = harness.read(kept);
  REQUIRE(row);
  CHECK(row->ballot == at);
}

TEST_CASE("a disk without room for the log closes its volume, and has not failed") {
  VolumeHarness harness;
  REQUIRE(harness.format());
  harness.open();
  REQUIRE(harness.run(harness.volume->set_epochs({GroupEpoch{kGroup, Epoch{1}, {}}})));
  const auto kept = VolumeHarness::object("kept");
  const Ballot at = harness.ballot(1);
  harness.store(kept, at, VolumeHarness::value(1));
  auto call = FakeDisk::Call::write;
  bool sound = true;
  SUBCASE("a write") {}
  SUBCASE("a sync: pages may be dropped") {
    call = FakeDisk::Call::sync;
    sound = false;
  }
  harness.disk.fail(call, 1, FakeDisk::Fault::full, true);  // the ballast helps no more
  const auto failed =
      harness.accept(VolumeHarness::object("b"), harness.ballot(2), VolumeHarness::value(2));
  CHECK_FALSE(failed);
  CHECK(harness.volume->status().state == VolumeStatus::State::closed);
  CHECK(harness.volume->is_disk_sound() == sound);
  harness.disk.heal();
  harness.close();
  harness.open();
  const auto row = harness.read(kept);
  REQUIRE(row);
  CHECK(row->ballot == at);
}

TEST_CASE("A disk that throws from a read fails that read only") {
  VolumeHarness harness;
  REQUIRE(harness.format());
  bool throwing = false;
  auto observer = [&throwing](FakeDisk::Call call, const std::string&) {
    if (throwing && call == FakeDisk::Call::read) throw std::runtime_error("planted");
  };
  auto view = make_latching_disk(make_observed_disk(harness.disk.share(), observer),
                                 [](const Error&) { FAIL("a read closes nothing"); });
  throwing = true;
  CHECK(code_of(view->open("volume.json", OpenMode::read)) == Errc::io);
  throwing = false;
  auto file = view->open("volume.json", OpenMode::read);
  REQUIRE(file);
  std::array<std::byte, 16> bytes;
  throwing = true;
  CHECK(code_of((*file)->read_at(0, bytes)) == Errc::io);
  throwing = false;
  CHECK((*file)->read_at(0, bytes).value() == bytes.size());
}

TEST_CASE("A group commit that throws answers who waits and closes its volume") {
  VolumeHarness harness;
  REQUIRE(harness.format());
  ThrowingClock clock(harness.clock);
  auto opened = Volume::open(
      {harness.disk.share(), clock, harness.random, harness.buffers, harness.workers()},
      VolumeHarness::options());
  REQUIRE(opened);
  harness.volume = std::move(*opened);
  REQUIRE(harness.run(harness.volume->set_epochs({GroupEpoch{kGroup, Epoch{1}, {}}})));
  REQUIRE(harness.prepare(VolumeHarness::object("a"), harness.ballot(1)));
  // A prepare above the ceiling asks it in the batch that raises the ceiling, and in the next one,
  // where it throws.
  const auto key = VolumeHarness::object("b");
  clock.throwing = true;
  clock.passes = 1;
  CHECK(code_of(harness.prepare(key, harness.ballot(60'000'000))) == Errc::io);
  clock.throwing = false;
  CHECK(harness.volume->status().state == VolumeStatus::State::closed);
  CHECK(code_of(harness.prepare(key, harness.ballot(3))) == Errc::unavailable);
  harness.close();
}

}  // namespace
}  // namespace penstock
