#include "placement/layout.h"

#include <algorithm>

#include "penstock/assert.h"
#include "penstock/limits.h"

namespace penstock {

Result<Layout> Layout::make(BlobShape shape) {
  if (shape.k == 0) return fail(Errc::invalid, "layout: k = 0");
  if (std::uint64_t{shape.k} + shape.m > limits::kFragmentsPerStripeMax) {
    return fail(Errc::invalid, "layout: too many slots");
  }
  if (shape.unit_bytes == 0 || shape.unit_bytes % limits::kBlockBytes != 0 ||
      shape.unit_bytes > limits::kPutBytesMax) {
    return fail(Errc::invalid, "layout: the unit is no multiple of a block");
  }
  if (shape.size_bytes > limits::kPutBytesMax) return fail(Errc::invalid, "layout: over 5 GiB");
  Layout layout;
  layout.shape_ = shape;
  return layout;
}

std::uint64_t Layout::stripe_count() const {
  const std::uint64_t stripe_bytes = shape_.k * shape_.unit_bytes;
  return (shape_.size_bytes + stripe_bytes - 1) / stripe_bytes;
}

std::uint64_t Layout::unit_bytes(std::uint64_t stripe) const {
  const std::uint64_t stripe_bytes = shape_.k * shape_.unit_bytes;
  PENSTOCK_ASSERT(stripe * stripe_bytes < shape_.size_bytes);
  const std::uint64_t rest = shape_.size_bytes - stripe * stripe_bytes;
  if (rest >= stripe_bytes) return shape_.unit_bytes;
  const std::uint64_t share = (rest + shape_.k - 1) / shape_.k;
  return (share + limits::kBlockBytes - 1) / limits::kBlockBytes * limits::kBlockBytes;
}

std::uint32_t Layout::slot_of_unit(std::uint64_t stripe, std::uint32_t unit) const {
  const std::uint32_t slots = shape_.slots();
  PENSTOCK_ASSERT(unit < slots);
  return static_cast<std::uint32_t>((unit + slots - stripe % slots) % slots);
}

std::uint32_t Layout::unit_of_slot(std::uint64_t stripe, std::uint32_t slot) const {
  PENSTOCK_ASSERT(slot < shape_.slots());
  return static_cast<std::uint32_t>((slot + stripe) % shape_.slots());
}

std::uint64_t Layout::stored_bytes(std::uint64_t stripe, std::uint32_t unit) const {
  PENSTOCK_ASSERT(unit < shape_.slots());
  const std::uint64_t unit_length = unit_bytes(stripe);
  // Replicas are the same bytes, so they end where the data ends; parity covers whole blocks.
  if (unit >= shape_.k && shape_.k > 1) return unit_length;
  const std::uint64_t begin =
      stripe * shape_.k * shape_.unit_bytes + (shape_.k > 1 ? unit * unit_length : 0);
  return begin >= shape_.size_bytes ? 0 : std::min(shape_.size_bytes - begin, unit_length);
}

std::uint64_t Layout::fragment_bytes(std::uint32_t slot) const {
  const std::uint64_t stripes = stripe_count();
  if (stripes == 0) return 0;
  return fragment_offset(stripes - 1) + stored_bytes(stripes - 1, unit_of_slot(stripes - 1, slot));
}

std::uint64_t Layout::fragment_offset(std::uint64_t stripe) const {
  return stripe * shape_.unit_bytes;  // every stripe but the last has whole units
}

Layout::Run Layout::run_at(std::uint64_t offset, std::uint64_t end) const {
  PENSTOCK_ASSERT(offset < end && end <= shape_.size_bytes);
  const std::uint64_t stripe_bytes = shape_.k * shape_.unit_bytes;
  Run run;
  run.stripe = offset / stripe_bytes;
  const std::uint64_t in_stripe = offset % stripe_bytes;
  const std::uint64_t unit_length = unit_bytes(run.stripe);
  run.unit = static_cast<std::uint32_t>(in_stripe / unit_length);
  run.slot = slot_of_unit(run.stripe, run.unit);
  run.unit_offset = in_stripe % unit_length;
  run.fragment_offset = fragment_offset(run.stripe) + run.unit_offset;
  run.blob_offset = offset;
  run.length = std::min(end - offset, unit_length - run.unit_offset);
  PENSTOCK_ASSERT(run.unit < shape_.k && run.length > 0);
  PENSTOCK_ASSERT(unit_of_slot(run.stripe, run.slot) == run.unit);
  return run;
}

}  // namespace penstock
