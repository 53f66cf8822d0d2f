#include "server/volume/disk/sealed_row.h"

#include <doctest/doctest.h>

#include "tests/fake/code_of.h"

namespace penstock {
namespace {

TEST_CASE("an empty payload is sealed and opened like any other") {
  const std::string sealed = seal_row("key", "");
  CHECK(sealed.size() == kSealBytes);
  REQUIRE(unseal_row("key", sealed));
  CHECK(unseal_row("key", sealed)->empty());
  CHECK(code_of(unseal_row("other", sealed)) == Errc::corrupt);
  CHECK(code_of(unseal_row("key", "")) == Errc::corrupt);
}

TEST_CASE("a sealed row opens under its own key, whole and of this version only") {
  const std::string sealed = seal_row("key", "head", "tail");
  REQUIRE(unseal_row("key", sealed));
  CHECK(*unseal_row("key", sealed) == "headtail");
  CHECK(sealed == seal_row("key", "headtail"));
  CHECK(code_of(unseal_row("other", sealed)) == Errc::corrupt);
  for (std::size_t bytes = 0; bytes < sealed.size(); ++bytes) {
    CAPTURE(bytes);
    CHECK_FALSE(unseal_row("key", std::string_view(sealed).substr(0, bytes)));
  }
  for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    std::string flipped = sealed;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    CAPTURE(bit);
    CHECK_FALSE(unseal_row("key", flipped));
  }
}

}  // namespace
}  // namespace penstock
