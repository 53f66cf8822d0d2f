#include "gateway/descriptor_shares.h"

#include <doctest/doctest.h>

namespace penstock {

TEST_CASE("connections get the descriptors that volumes leave, and never all") {
  for (const std::size_t limit : {600, 1024, 4096, 20'000, 1'000'000}) {
    for (const std::size_t volumes : {0, 1, 6, 32, 64, 109}) {
      for (const bool uncopied : {false, true}) {
        CAPTURE(limit);
        CAPTURE(volumes);
        CAPTURE(uncopied);
        const auto shares = share_descriptors(limit, volumes, 10'000, uncopied);
        if (!shares && limit < 300 + 64 * volumes) continue;
        REQUIRE(shares);
        CHECK(shares->per_volume >= limits::kDescriptorsPerVolumeMin);
        CHECK(shares->connections >= limits::kDescriptorsServingMin);
        if (!uncopied) CHECK(shares->pipes == 0);
        CHECK(shares->connections <= 10'000);
        CHECK(shares->connections + volumes * shares->per_volume + 2 * shares->pipes +
                  limits::kDescriptorsSpare <=
              limit);
      }
    }
  }
  CHECK(share_descriptors(2'560, 64, 10'000, true)->connections >= limits::kDescriptorsServingMin);
  const auto plenty = share_descriptors(1'000'000, 6, 10'000, true);
  CHECK(plenty->pipes > 0);
  CHECK(plenty->connections == 10'000);
  CHECK(plenty->per_volume == 2 * limits::kReadHandlesPerVolume);
}

TEST_CASE("a limit that is too low for the volumes is told with what it should be") {
  const auto none = share_descriptors(256, 6, 10'000, false);
  REQUIRE(none.has_error());
  CHECK(none.error().context.find("256") != std::string::npos);
  CHECK(none.error().context.find("ulimit -n") != std::string::npos);
}

}  // namespace penstock
