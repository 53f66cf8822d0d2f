#include "server/blobs/blob_stripes.h"

#include <algorithm>
#include <boost/container/static_vector.hpp>

#include "penstock/assert.h"
#include "penstock/limits.h"
#include "penstock/volume_client.h"

namespace penstock {
namespace {

constexpr std::size_t kBlock = limits::kBlockBytes;

std::size_t pieces_of(std::uint64_t bytes) {
  return static_cast<std::size_t>((bytes + limits::kPieceBytes - 1) / limits::kPieceBytes);
}

}  // namespace

StripeBuilder::StripeBuilder(Layout layout, WriteId write_id, std::shared_ptr<const Codec> codec,
                             BufferPool& buffers)
    : layout_(layout), write_id_(write_id), codec_(std::move(codec)), buffers_(buffers) {}

std::size_t StripeBuilder::parity_pieces_per_stripe() const {
  const BlobShape& shape = layout_.shape();
  return shape.k == 1 ? 0 : shape.m * pieces_of(layout_.unit_bytes(0));
}

Buffer StripeBuilder::space() {
  PENSTOCK_ASSERT(bytes_left() > 0);
  if (at_stripe_start()) begin_stripe();
  if (!piece_) begin_piece();
  return piece_.slice(filled_, piece_.size() - filled_);
}

void StripeBuilder::begin_stripe() {
  run_ = layout_.run_at(offset_, layout_.shape().size_bytes);
  parity_.clear();
  if (layout_.shape().k == 1) return;  // replicas are the data itself
  const std::uint64_t unit_bytes = layout_.unit_bytes(run_.stripe);
  const std::uint64_t coded_bytes = layout_.stored_bytes(run_.stripe, 0);  // by the first unit
  for (std::uint32_t j = 0; j < layout_.shape().m; ++j) {
    auto& unit = parity_.emplace_back();
    for (std::uint64_t at = 0; at < unit_bytes; at += limits::kPieceBytes) {
      unit.push_back(buffers_.get(std::min<std::size_t>(limits::kPieceBytes, unit_bytes - at)));
      const std::size_t coded = coded_bytes < at ? 0 : coded_bytes - at;
      const MutBytes all = unit.back().mutable_bytes();
      if (coded < all.size()) std::ranges::fill(all.subspan(coded), std::byte{0});
    }
  }
}

void StripeBuilder::begin_piece() {
  run_ = layout_.run_at(offset_, layout_.shape().size_bytes);
  piece_offset_ = run_.unit_offset;
  piece_ = buffers_.get(std::min<std::size_t>(limits::kPieceBytes, run_.length));
  filled_ = 0;
  coded_ = 0;
  piece_crcs_.assign(layout_.shape().k == 1 ? layout_.shape().slots() : 1, {});
  for (auto& crcs : piece_crcs_) crcs.reserve((piece_.size() + kBlock - 1) / kBlock);
}

std::vector<FragmentPiece> StripeBuilder::filled(std::size_t count) {
  PENSTOCK_ASSERT(piece_ && filled_ + count <= piece_.size());
  filled_ += count;
  offset_ += count;
  const bool complete = filled_ == piece_.size();
  while (filled_ - coded_ >= limits::kColumnBytes || (complete && coded_ < filled_)) {
    const std::size_t end = std::min(filled_, coded_ + limits::kColumnBytes);
    code(coded_, end);
    coded_ = end;
  }
  std::vector<FragmentPiece> done;
  if (!complete) return done;
  end_piece(done);
  const bool unit_ends = piece_offset_ + filled_ == layout_.stored_bytes(run_.stripe, run_.unit);
  if (bytes_left() == 0 || (unit_ends && run_.unit + 1 == layout_.shape().k)) end_stripe(done);
  return done;
}

// Bytes [begin, end) of the piece: at most one column, so that they are still in the cache for the
// second look at them.
void StripeBuilder::code(std::size_t begin, std::size_t end) {
  PENSTOCK_ASSERT(begin < end && end <= filled_ && end - begin <= limits::kColumnBytes);
  const ConstBytes column = piece_.bytes().subspan(begin, end - begin);
  if (!parity_.empty()) {
    boost::container::static_vector<MutBytes, limits::kFragmentsPerStripeMax> targets;
    for (auto& unit : parity_) {
      PENSTOCK_ASSERT(piece_offset_ / limits::kPieceBytes < unit.size());
      const Buffer& target = unit[piece_offset_ / limits::kPieceBytes];
      PENSTOCK_ASSERT(end <= target.size());
      targets.push_back(target.mutable_bytes().subspan(begin, column.size()));
    }
    codec_->encode_add(run_.unit, column, targets);
  }
  const std::uint64_t offset = layout_.fragment_offset(run_.stripe) + piece_offset_ + begin;
  for (std::size_t replica = 0; replica < piece_crcs_.size(); ++replica) {
    const auto slot = static_cast<std::uint8_t>(layout_.shape().k == 1 ? replica : run_.slot);
    for (std::size_t at = 0; at < column.size(); at += kBlock) {
      const auto bytes = column.subspan(at, std::min(kBlock, column.size() - at));
      piece_crcs_[replica].push_back(
          fragment_block_crc(write_id_, slot, (offset + at) / kBlock, bytes));
    }
  }
}

void StripeBuilder::end_piece(std::vector<FragmentPiece>& done) {
  const auto held = credit(&PiecesUnderWay::data);
  for (std::size_t replica = 0; replica < piece_crcs_.size(); ++replica) {
    const auto slot = layout_.shape().k == 1 ? static_cast<std::uint32_t>(replica) : run_.slot;
    done.push_back({slot, piece_, std::move(piece_crcs_[replica]), held});
  }
  piece_ = Buffer();
}

void StripeBuilder::end_stripe(std::vector<FragmentPiece>& done) {
  for (std::uint32_t j = 0; j < parity_.size(); ++j) {
    const std::uint32_t slot = layout_.slot_of_unit(run_.stripe, layout_.shape().k + j);
    std::uint64_t at = layout_.fragment_offset(run_.stripe);
    for (Buffer& bytes : parity_[j]) {
      auto crcs = crcs_of(slot, at, bytes.bytes());
      at += bytes.size();
      done.push_back({slot, std::move(bytes), std::move(crcs), credit(&PiecesUnderWay::parity)});
    }
  }
  PENSTOCK_ASSERT(!piece_ && "the stripe's last piece has gone out");
  parity_.clear();
  run_.length = 0;
}

std::vector<std::uint32_t> StripeBuilder::crcs_of(std::uint32_t slot, std::uint64_t fragment_offset,
                                                  ConstBytes bytes) const {
  std::vector<std::uint32_t> crcs;
  crcs.reserve((bytes.size() + kBlock - 1) / kBlock);
  for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
    const auto block = bytes.subspan(at, std::min(kBlock, bytes.size() - at));
    crcs.push_back(fragment_block_crc(write_id_, static_cast<std::uint8_t>(slot),
                                      (fragment_offset + at) / kBlock, block));
  }
  return crcs;
}

std::shared_ptr<const void> StripeBuilder::credit(
    std::atomic<std::size_t> PiecesUnderWay::*counter) const {
  ++((*under_way_).*counter);
  const auto give_back = [under_way = under_way_, counter](const void*) {
    const std::size_t before = ((*under_way).*counter)--;
    PENSTOCK_ASSERT(before > 0);
    if (under_way->given_back) under_way->given_back();
  };
  return std::shared_ptr<const void>(this, give_back);  // never read through
}

}  // namespace penstock
