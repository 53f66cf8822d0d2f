#include "server/blobs/manifest.h"

#include <doctest/doctest.h>

#include "tests/unit/blobs/blob_world.h"

namespace penstock {

TEST_CASE("a fragment that any page of a manifest has lost is told") {
  constexpr std::size_t kPages = 3;
  for (std::size_t page = 0; page < kPages; ++page) {
    CAPTURE(page);
    BlobWorld world;
    ManifestWriter writer(*world.blobs, world.owner);
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
  ManifestWriter writer(*world.blobs, world.owner);
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

namespace {

int fragment_reads(const BlobWorld& world) {
  int reads = 0;
  for (const auto& volume : world.volumes) {
    reads += volume->counters.reads + volume->counters.reads_now;
  }
  return reads;
}
}  // namespace

TEST_CASE("as many pages are kept as the bound says, those that were used last") {
  BlobWorld world;
  ManifestWriter writer(*world.blobs, world.owner);
  std::vector<ManifestPage> pages;
  for (std::size_t n = 0; n < limits::kManifestPagesCached + 1; ++n) {
    PartInfo part;
    part.number = static_cast<std::uint16_t>(n + 1);
    const std::vector<PartInfo> parts{part};
    auto written = run_task(world.io, world.clock, writer.write(parts, world.deadline()));
    REQUIRE(written);
    pages.push_back(written->front());
  }
  ManifestCache cache(*world.blobs);
  // Whether the page had to be read.
  const auto take = [&](std::size_t n) {
    const int before = fragment_reads(world);
    const auto entries = run_task(world.io, world.clock, cache.page(pages[n], world.deadline()));
    REQUIRE(entries);
    REQUIRE((*entries)->size() == 1);
    CHECK((*entries)->front().number == n + 1);
    return fragment_reads(world) != before;
  };
  for (std::size_t n = 0; n < limits::kManifestPagesCached; ++n) CHECK(take(n));
  for (std::size_t n = 0; n < limits::kManifestPagesCached; ++n) CHECK_FALSE(take(n));
  CHECK_FALSE(take(0));
  CHECK(take(limits::kManifestPagesCached));
  CHECK_FALSE(take(0));
  CHECK_FALSE(take(limits::kManifestPagesCached));
  CHECK(take(1));  // was used before all others
  CHECK_FALSE(take(1));
}

TEST_CASE("a page with another number of parts than its record says is corrupt") {
  BlobWorld world;
  ManifestWriter writer(*world.blobs, world.owner);
  const std::vector<PartInfo> parts(3);
  const auto pages = run_task(world.io, world.clock, writer.write(parts, world.deadline()));
  REQUIRE(pages);
  ManifestCache cache(*world.blobs);
  ManifestPage page = pages->front();
  page.entries = 2;
  const auto wrong = run_task(world.io, world.clock, cache.page(page, world.deadline()));
  CHECK(wrong.error().code == Errc::corrupt);
  CHECK(run_task(world.io, world.clock, cache.page(pages->front(), world.deadline())));
}

}  // namespace penstock
