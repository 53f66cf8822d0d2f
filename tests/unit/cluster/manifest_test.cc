#include "server/cluster/manifest.h"

#include <doctest/doctest.h>

#include "tests/unit/cluster/blob_world.h"

namespace penstock {

TEST_CASE("a fragment that any page of a manifest has lost is told") {
  constexpr std::size_t kPages = 3;
  for (std::size_t page = 0; page < kPages; ++page) {
    CAPTURE(page);
    BlobWorld world;
    ManifestWriter writer(*world.context, world.owner);
    const std::vector<PartInfo> parts(limits::kManifestPageEntries * (kPages - 1) + 1);
    const auto pages = run_task(world.io, world.clock, writer.write(parts, world.deadline()));
    REQUIRE(pages);
    REQUIRE(pages->size() == kPages);
    const BlobRef& blob = (*pages)[page].blob;
    const FragmentId lost = blob.fragment(1);
    REQUIRE(run_task(world.io, world.clock,
                     world.slot(blob, 1).remove_fragment(lost, world.deadline())));
    world.clock.advance(limits::kLeaseFresh);
    const auto missing = run_task(world.io, world.clock, writer.ensure(world.deadline()));
    REQUIRE(missing);
    CHECK(*missing == std::vector{lost});
  }
}

TEST_CASE("a page says which bytes and which parts of its object it holds") {
  BlobWorld world;
  ManifestWriter writer(*world.context, world.owner);
  std::vector<PartInfo> parts(limits::kManifestPageEntries * 2 + 1);
  std::uint64_t size_bytes = 0;
  for (PartInfo& part : parts) part.size_bytes = ++size_bytes % 7;
  const auto pages = run_task(world.io, world.clock, writer.write(parts, world.deadline()));
  REQUIRE(pages);
  std::uint64_t offset = 0;
  std::size_t index = 0;
  for (const ManifestPage& page : *pages) {
    CHECK(page.first_part_index == index);
    CHECK(page.first_offset == offset);
    for (std::size_t n = 0; n < page.entries; ++n) offset += parts.at(index++).size_bytes;
  }
  CHECK(index == parts.size());
}

}  // namespace penstock
