// Want of descriptors or memory in the middle of work: the one call is refused, and nothing of it
// is left behind.
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

using Call = FakeDisk::Call;
using Fault = FakeDisk::Fault;

}  // namespace

TEST_CASE("a drop that could not be stored leaves its key to others") {
  VolumeHarness h;
  h.fresh();
  h.close();
  VolumeOptions small = VolumeHarness::options();
  small.database.write_buffer_bytes = 64 * limits::kKiB;
  h.open(small);
  const RegisterKey dead = h.object("dead");
  h.store(dead, h.ballot(1), h.value(1, ValueKind::tombstone));
  h.disk.fail(Call::create, 1, Fault::scarce, true);  // the next log cannot be begun
  bool full = false;
  for (std::uint64_t i = 2; i < 100 && !full; ++i) {
    full = !h.accept(h.object("key" + std::to_string(i)), h.ballot(i), h.value(i),
                     std::string(4000, 'x'));
  }
  REQUIRE(full);
  CHECK(code_of(h.drop(dead, h.ballot(1))) == Errc::overloaded);
  h.disk.heal();
  CHECK(h.read(dead)->ballot == h.ballot(1));
  CHECK(h.drop(dead, h.ballot(1)));
  CHECK(h.read(dead)->ballot.is_zero());
}

TEST_CASE("a row that cannot be read for want of memory is not taken for a damaged one") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  h.store(key, h.ballot(1), h.value(1), "bytes");
  h.close();
  VolumeOptions uncached = VolumeHarness::options();
  uncached.registers.cache_bytes = 0;
  h.open(uncached);
  h.disk.fail(Call::read, 1, Fault::scarce, true);
  const Ballot above = h.ballot(120'000'000);  // all that the volume can have accepted
  CHECK(code_of(h.accept(key, above, h.value(2))) == Errc::overloaded);
  h.disk.heal();
  CHECK(h.read(key)->ballot == h.ballot(1));
  h.store(key, above, h.value(2));
}

}  // namespace penstock
