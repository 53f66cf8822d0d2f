#include "server/blobs/blobs.h"

#include "server/blobs/blob_context.h"
#include "server/blobs/blob_places.h"
#include "server/blobs/fragment_rebuild.h"
#include "server/blobs/reader_pins.h"

namespace penstock {

Blobs::Blobs(Membership& membership, Clock& clock, Random& random, BufferPool& buffers,
             MemoryBudget& budget, CodecCache& codecs, BlobOptions options)
    : context_(new BlobContext{membership, clock, random, buffers, budget, codecs, options}) {}
Blobs::~Blobs() = default;

std::uint64_t Blobs::inline_bytes_max() const {
  return context_->membership.map()->policy.inline_bytes_max;
}

Result<> Blobs::could_write(std::uint64_t size_bytes) const {
  const auto write_id = context_->random.id128<WriteId>();
  TRY(placed, place_blob(*context_, write_id, size_bytes, false, {}));
  (void)placed;
  return {};
}

Task<std::unique_ptr<BlobWriter>> Blobs::write(FragmentOwner owner, std::uint64_t size_bytes,
                                               Deadline deadline, MemoryAccount account) {
  return BlobWriter::open(*context_, std::move(owner), size_bytes, false, deadline, account);
}

Task<std::unique_ptr<BlobWriter>> Blobs::write_replicated(FragmentOwner owner,
                                                          std::uint64_t size_bytes,
                                                          Deadline deadline) {
  return BlobWriter::open(*context_, std::move(owner), size_bytes, true, deadline, MemoryAccount{});
}

BlobReader Blobs::read(std::vector<BlobRange> ranges, bool file_pieces, BlobReader::Damaged damaged,
                       MemoryAccount account) {
  return BlobReader(*context_, std::move(ranges), file_pieces, std::move(damaged), account);
}

Task<std::string> Blobs::read_whole(const BlobRef& blob, Deadline deadline) {
  return read_blob(*context_, blob, deadline);
}

Awaitable<void> Blobs::pin_for_reader(std::vector<BlobRef> blobs, Deadline deadline) {
  return pin_all_for_reader(context_.get(), std::move(blobs), deadline);
}

Duration Blobs::reader_pin_every() const { return context_->options.reader_pin_every; }

int Blobs::spares(const BlobRef& blob) const { return spares_of(context_->membership, blob); }

std::vector<std::uint32_t> Blobs::misplaced_slots(const BlobRef& blob) const {
  return misplaced_slots_of(*context_, blob);
}

Task<Location> Blobs::make_again(FragmentOwner owner, BlobRef blob, std::uint32_t slot,
                                 Deadline deadline) {
  const auto target = place_for_one_more(*context_, blob);
  if (!target) co_return fail(Errc::unavailable, "no volume is left for a fragment");
  co_return co_await rebuild_fragment(*context_, std::move(owner), std::move(blob), slot, *target,
                                      deadline);
}

HedgeBudget& Blobs::hedges() { return context_->hedges; }

}  // namespace penstock
