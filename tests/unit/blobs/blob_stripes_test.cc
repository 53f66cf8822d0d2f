#include "server/blobs/blob_stripes.h"

#include <doctest/doctest.h>

#include "penstock/limits.h"

namespace penstock {
namespace {

StripeBuilder builder_of(BlobShape shape, BufferPool& buffers) {
  auto codec = std::make_shared<const Codec>(Codec::make(shape.k, shape.m).value());
  return StripeBuilder(Layout::make(shape).value(), WriteId{1, 2}, codec, buffers);
}

TEST_CASE("pieces are whole blocks, aligned, at most 512 KiB, and fill the fragments in order") {
  const BlobShape shapes[] = {{4, 2, 2 << 20, 20'000'000},
                              {8, 3, 1 << 20, 9'000'001},
                              {1, 2, 2 << 20, 3'000'000},
                              {2, 2, 16 << 10, 100'000}};
  for (const BlobShape& shape : shapes) {
    BufferPool buffers(8 << 20);
    StripeBuilder builder = builder_of(shape, buffers);
    const Layout layout = Layout::make(shape).value();
    std::vector<std::uint64_t> lengths(shape.slots(), 0);
    while (builder.bytes_left() > 0) {
      const Buffer space = builder.space();
      const std::size_t count = std::min<std::size_t>(space.size(), 300'000);
      std::fill_n(space.data(), count, std::byte{7});
      for (const FragmentPiece& piece : builder.filled(count)) {
        REQUIRE(piece.data.size() <= limits::kPieceBytes);
        REQUIRE(reinterpret_cast<std::uintptr_t>(piece.data.data()) % 4096 == 0);
        REQUIRE(lengths[piece.slot] % limits::kBlockBytes == 0);
        REQUIRE(piece.crcs.size() ==
                (piece.data.size() + limits::kBlockBytes - 1) / limits::kBlockBytes);
        lengths[piece.slot] += piece.data.size();
      }
    }
    for (std::uint32_t slot = 0; slot < shape.slots(); ++slot) {
      CHECK(lengths[slot] == layout.fragment_bytes(slot));
    }
  }
}

TEST_CASE("pieces count as under way until the last copy of their credit is gone") {
  BufferPool buffers(8 << 20);
  StripeBuilder builder = builder_of({2, 2, 16 << 10, 32 << 10}, buffers);
  CHECK(builder.at_stripe_start());
  auto first = builder.filled(builder.space().size());
  CHECK_FALSE(builder.at_stripe_start());
  CHECK(builder.under_way().data == 1);
  auto second = builder.filled(builder.space().size());
  CHECK(second.size() == 3);  // the data and two units of parity
  CHECK(builder.under_way().data == 2);
  CHECK(builder.under_way().parity == 2);
  CHECK(builder.parity_pieces_per_stripe() == 2);
  first.clear();
  CHECK(builder.under_way().data == 1);
  second.clear();
  CHECK(builder.under_way().data == 0);
  CHECK(builder.under_way().parity == 0);
}

}  // namespace
}  // namespace penstock
