#include "server/blobs/fragment_rebuild.h"

#include <algorithm>
#include <cstring>

#include "penstock/limits.h"
#include "server/blobs/blob_places.h"

namespace penstock {
namespace {

// What a target did. Suspect the second time, and no target any more, also if it answers all but
// fragments.
template <class T>
Result<T> blamed(BlobContext& context, VolumeId target, Deadline deadline, Result<T> done) {
  if (done || context.clock.boot() >= deadline) return done;  // or its sources took all the time
  const Errc code = done.error().code;
  if (code == Errc::unavailable || code == Errc::timeout || code == Errc::io) {
    context.membership.report_fragment(target, false);
  }
  return done;
}

class Rebuild {
 public:
  Rebuild(BlobContext& context, BlobRef blob, std::uint32_t slot, VolumeId target, Layout layout,
          std::shared_ptr<const Codec> codec, Deadline deadline)
      : context_(context),
        blob_(std::move(blob)),
        slot_(slot),
        target_(target),
        layout_(layout),
        codec_(std::move(codec)),
        deadline_(deadline) {}

  Task<> run(FragmentWriter& writer);

 private:
  // A step: at most a piece of one unit.
  struct Column {
    std::uint64_t stripe = 0;
    std::uint32_t unit = 0;
    std::uint64_t offset = 0;  // in the unit
    std::uint64_t length = 0;
  };

  Task<Buffer> piece(Column column);
  // The same bytes of the unit that `from` holds; past its stored end they are zeros.
  Task<Buffer> read(Column column, std::uint32_t from);
  Task<Buffer> decode(Column column);
  Buffer zeros(std::size_t length) {
    Buffer buffer = context_.buffers.get(length);
    std::memset(buffer.data(), 0, length);
    return buffer;
  }

  BlobContext& context_;
  const BlobRef blob_;
  const std::uint32_t slot_;
  const VolumeId target_;
  const Layout layout_;
  const std::shared_ptr<const Codec> codec_;
  const Deadline deadline_;
  bool lost_ = false;  // the fragment cannot be read where it lies
};

Task<> Rebuild::run(FragmentWriter& writer) {
  for (std::uint64_t stripe = 0; stripe < layout_.stripe_count(); ++stripe) {
    Column column;
    column.stripe = stripe;
    column.unit = layout_.unit_of_slot(stripe, slot_);
    const std::uint64_t stored = layout_.stored_bytes(stripe, column.unit);
    while (column.offset < stored) {
      column.length = std::min<std::uint64_t>(limits::kPieceBytes, stored - column.offset);
      CO_TRY(bytes, co_await piece(column));
      const std::uint64_t at = layout_.fragment_offset(stripe) + column.offset;
      std::vector<std::uint32_t> crcs;
      for (std::size_t done = 0; done < bytes.size(); done += limits::kBlockBytes) {
        const auto block = bytes.bytes().subspan(
            done, std::min<std::size_t>(limits::kBlockBytes, bytes.size() - done));
        crcs.push_back(fragment_block_crc(blob_.write_id, static_cast<std::uint8_t>(slot_),
                                          (at + done) / limits::kBlockBytes, block));
      }
      auto appended = co_await writer.append(std::move(bytes), std::move(crcs), deadline_);
      CO_CHECK(blamed(context_, target_, deadline_, std::move(appended)));
      column.offset += column.length;
    }
  }
  co_return Result<>{};
}

Task<Buffer> Rebuild::piece(Column column) {
  if (!lost_ && is_open_volume(context_.membership, blob_.locations[slot_].volume)) {
    auto direct = co_await read(column, slot_);
    if (direct) co_return direct;
  }
  lost_ = true;
  co_return co_await decode(column);
}

Task<Buffer> Rebuild::read(Column column, std::uint32_t from) {
  const std::uint32_t unit = layout_.unit_of_slot(column.stripe, from);
  const std::uint64_t stored = layout_.stored_bytes(column.stripe, unit);
  const auto length = static_cast<std::size_t>(column.length);
  Buffer bytes = zeros(length);
  if (column.offset >= stored) co_return bytes;
  const auto client = context_.membership.volume(blob_.locations[from].volume);
  if (client == nullptr) co_return fail(Errc::unavailable, "the volume is out of reach");
  FragmentReadRequest request;
  request.id = blob_.fragment(from);
  request.offset = layout_.fragment_offset(column.stripe) + column.offset;
  request.length = std::min<std::uint64_t>(column.length, stored - column.offset);
  CO_TRY(piece, co_await client->read_fragment(std::move(request), deadline_));
  std::memcpy(bytes.data(), piece.bytes().data(), piece.bytes().size());
  co_return bytes;
}

Task<Buffer> Rebuild::decode(Column column) {
  const BlobShape& shape = layout_.shape();
  std::vector<std::uint32_t> present;
  std::vector<Buffer> buffers;
  Error last = fail(Errc::unavailable, "their volumes are out of reach");
  for (std::uint32_t from = 0; from < shape.slots() && present.size() < shape.k; ++from) {
    if (from == slot_) continue;
    const std::uint32_t unit = layout_.unit_of_slot(column.stripe, from);
    const bool zeros_only = column.offset >= layout_.stored_bytes(column.stripe, unit);
    if (!zeros_only && !is_open_volume(context_.membership, blob_.locations[from].volume)) continue;
    auto bytes = co_await read(column, from);
    if (!bytes) {
      last = std::move(bytes).error();
      continue;
    }
    if (shape.k == 1) co_return std::move(*bytes);  // replicas are the data itself
    present.push_back(layout_.unit_of_slot(column.stripe, from));
    buffers.push_back(std::move(*bytes));
  }
  if (present.size() < shape.k) {
    co_return fail(last.code, "fewer than " + std::to_string(shape.k) + " of " +
                                  std::to_string(shape.slots()) +
                                  " fragments can be read: " + last.context);
  }
  std::vector<ConstBytes> given;
  for (const Buffer& buffer : buffers) given.push_back(buffer.bytes());
  Buffer out = zeros(static_cast<std::size_t>(column.length));
  const std::vector<std::uint32_t> wanted{column.unit};
  const std::vector<MutBytes> outs{out.mutable_bytes()};
  CO_CHECK(codec_->rebuild(present, given, wanted, outs));
  co_return out;
}

}  // namespace

Task<Location> rebuild_fragment(BlobContext& context, FragmentOwner owner, BlobRef blob,
                                std::uint32_t slot, VolumeId target, Deadline deadline) {
  CO_TRY(layout, Layout::make(blob.shape));
  if (slot >= blob.shape.slots() || blob.locations.size() != blob.shape.slots()) {
    co_return fail(Errc::invalid, "the blob has no such slot");
  }
  const auto client = context.membership.volume(target);
  if (client == nullptr) co_return fail(Errc::unavailable, "the target is out of reach");
  CO_TRY(codec, context.codecs.get(blob.shape.k, blob.shape.m));
  const std::size_t pieces = blob.shape.k + 1 + limits::kFragmentWritesInFlight;
  CO_TRY(memory, context.budget.take(pieces * limits::kPieceBytes));
  Location placed;
  placed.volume = target;
  placed.generation = Generation{context.random.next()};
  FragmentId id = blob.fragment(slot);
  id.generation = placed.generation;
  FragmentShape shape;
  shape.data_bytes = layout.fragment_bytes(slot);
  shape.owner = std::move(owner);
  auto opened = co_await client->write_fragment(id, std::move(shape), deadline);
  CO_TRY(writer, blamed(context, target, deadline, std::move(opened)));
  Rebuild rebuild(context, std::move(blob), slot, target, layout, std::move(codec), deadline);
  CO_CHECK(co_await rebuild.run(*writer));
  auto committed = co_await writer->commit(deadline);
  CO_CHECK(blamed(context, target, deadline, std::move(committed)));
  context.membership.report_durable(target);
  co_return placed;
}

}  // namespace penstock
