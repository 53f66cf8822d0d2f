#include "gateway/descriptor_shares.h"

#include <doctest/doctest.h>

namespace penstock {

TEST_CASE("connections get the descriptors that volumes leave, and never all") {
  for (const std::size_t limit : {600, 1024, 4096, 20'000, 1'000'000}) {
    for (const std::size_t volumes : {1, 6}) {
      CAPTURE(limit);
      CAPTURE(volumes);
      const auto shares = share_descriptors(limit, volumes, 10'000);
      REQUIRE(shares);
      CHECK(shares->per_volume >= limits::kDescriptorsPerVolumeMin);
      CHECK(shares->connections >= 64);
      CHECK(shares->connections <= 10'000);
      CHECK(shares->connections + volumes * shares->per_volume + 2 * shares->pipes +
                limits::kDescriptorsSpare <=
            limit);
    }
  }
  const auto plenty = share_descriptors(1'000'000, 6, 10'000);
  CHECK(plenty->connections == 10'000);
  CHECK(plenty->per_volume == 2 * limits::kReadHandlesPerVolume);
}

TEST_CASE("a limit that is too low for the volumes is told with what it should be") {
  const auto none = share_descriptors(256, 6, 10'000);
  REQUIRE(none.has_error());
  CHECK(none.error().context.find("256") != std::string::npos);
  CHECK(none.error().context.find("ulimit -n") != std::string::npos);
}

}  // namespace penstock
