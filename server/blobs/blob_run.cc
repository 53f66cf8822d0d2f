#include "server/blobs/blob_run.h"

#include <algorithm>
#include <cstring>

#include "server/blobs/blob_places.h"
#include "server/membership/slow_volumes.h"

namespace penstock {

BlobRun::BlobRun(std::shared_ptr<BlobFetcher> fetcher, std::shared_ptr<OpenBlob> open,
                 Layout::Run run, std::uint64_t end, bool file_allowed)
    : fetcher_(std::move(fetcher)),
      open_(std::move(open)),
      run_(run),
      end_(end),
      file_allowed_(file_allowed) {
  if (auto kept = fetcher_->take_kept(*open_, run_, run_.slot)) {
    outcome_.emplace(std::move(*kept));
    return;
  }
  const VolumeId volume = open_->blob.locations[run_.slot].volume;
  Membership& membership = fetcher_->context.membership;
  if (volume.value != 0 && membership.suspect(volume)) {
    if (run_.length >= kSlowReadBytes && membership.take_turn_to_read(volume)) {
      raced_ = true;
    } else {
      direct_skipped_ = true;
    }
    if (fetcher_->executor) membership.probe_suspects(*fetcher_->executor);
  }
  if (!direct_skipped_) {
    start_direct();
  }
}

void BlobRun::start_direct() {
  units_tried_.add(run_.unit);
  direct_skipped_ = false;
  direct_ = fetcher_->fetch(*open_, run_.slot, run_.fragment_offset, run_.length, file_allowed_);
}

void BlobRun::look(BootTime now, bool hedge_allowed) {
  if (done()) return;
  if (direct_ != nullptr) look_at_direct(now);
  if (done()) return;
  const bool hedge = hedge_allowed && late_volume(now);
  if (!rebuilding_ && (direct_ == nullptr || raced_ || hedge)) start_columns();
  if (rebuilding_ && !done()) look_at_columns(now);
  if (std::exchange(look_again_, false)) look(now, hedge_allowed);
}

void BlobRun::look_at_direct(BootTime now) {
  if (direct_->result) {
    if (*direct_->result) {
      fetcher_->keep_to_rebuild(*open_, run_, end_, direct_->result->value());
      outcome_.emplace(std::move(*direct_->result));
      return;
    }
    fail_slot(run_.slot, direct_->result->error());
    direct_ = nullptr;
  } else if (has_stalled(*direct_, now) && (rebuilding_ || next_unit().has_value())) {
    fetcher_->note_stalled(*open_, *direct_);
    why_[run_.slot] = Errc::timeout;
    direct_ = nullptr;
  }
  if (direct_ == nullptr && columns_exhausted_) give_up();
}

void BlobRun::fail_slot(std::uint32_t slot, const Error& error) {
  why_[slot] = error.code;
  fetcher_->note_failure(*open_, slot, error);
}

// A stall is no loss: what k columns cannot be had without is waited for as long as disks stall.
bool BlobRun::has_stalled(const Fetch& fetch, BootTime now) const {
  const Duration age = now - fetch.began;
  if (age < limits::kNoProgress) return false;
  if (age >= limits::kStallPatience) return true;
  const BlobShape& shape = open_->blob.shape;
  std::uint32_t others = 0;
  for (std::uint32_t unit = 0; unit < shape.slots(); ++unit) {
    const std::uint32_t other = open_->layout.slot_of_unit(run_.stripe, unit);
    if (other == fetch.slot) continue;
    const VolumeId volume = open_->blob.locations[other].volume;
    const bool there = volume.value != 0 && !open_->lost[other] && !why_[other] &&
                       is_open_volume(fetcher_->context.membership, volume);
    if (stored_columns(*open_, run_, unit) == 0 || there) ++others;
  }
  return others >= shape.k;
}

// Units that need no read first, then those on healthy volumes, then the suspects.
std::optional<std::uint32_t> BlobRun::next_unit() const {
  std::optional<std::uint32_t> suspect;
  std::optional<std::uint32_t> healthy;
  for (std::uint32_t unit = 0; unit < open_->blob.shape.slots(); ++unit) {
    if (unit == run_.unit || units_tried_.has(unit)) continue;
    if (stored_columns(*open_, run_, unit) == 0) return unit;
    const std::uint32_t slot = open_->layout.slot_of_unit(run_.stripe, unit);
    const VolumeId volume = open_->blob.locations[slot].volume;
    if (volume.value == 0 || open_->lost[slot]) continue;
    if (!fetcher_->context.membership.suspect(volume)) {
      if (!healthy) healthy = unit;
    } else if (!suspect) {
      suspect = unit;
    }
  }
  return healthy ? healthy : suspect;
}

bool BlobRun::add_column() {
  const auto unit = next_unit();
  if (!unit) return false;
  units_tried_.add(*unit);
  Column column;
  column.unit = *unit;
  column.length = stored_columns(*open_, run_, *unit);
  const std::uint32_t slot = open_->layout.slot_of_unit(run_.stripe, *unit);
  if (auto kept = fetcher_->take_kept(*open_, run_, slot)) {
    column.fetch = std::make_shared<Fetch>();
    column.fetch->slot = slot;
    column.fetch->result.emplace(std::move(*kept));
  } else if (column.length > 0) {
    column.fetch = fetcher_->fetch(*open_, slot, run_.fragment_offset, column.length,
                                   file_allowed_ && open_->blob.shape.k == 1);
  }
  columns_.push_back(std::move(column));
  return true;
}

// Beside a direct read only if it costs nothing that others want.
void BlobRun::start_columns() {
  const bool has_memory = take_memory();
  wants_memory_ = !has_memory && direct_ == nullptr;
  if (!has_memory) return;
  const std::uint32_t k = open_->blob.shape.k;
  if (direct_ != nullptr && !raced_ && !fetcher_->context.hedges.spend(k)) {
    memory_ = {};
    return;
  }
  rebuilding_ = true;
}

// For k columns and the result; another copy of the bytes has the place of the first.
bool BlobRun::take_memory() {
  const std::uint32_t k = open_->blob.shape.k;
  if (k == 1) return true;
  auto memory = fetcher_->context.budget.take(fetcher_->user, (k + 1) * run_.length);
  if (memory) memory_ = std::move(*memory);
  return memory.has_value();
}

// True: some volumes had too much to do, and are asked once more.
bool BlobRun::begin_again() {
  bool busy = false;
  for (std::uint32_t unit = 0; unit < open_->blob.shape.slots(); ++unit) {
    const std::uint32_t slot = open_->layout.slot_of_unit(run_.stripe, unit);
    if (why_[slot] != Errc::overloaded) continue;
    why_[slot].reset();
    units_tried_.remove(unit);
    busy = true;
  }
  if (!busy) return false;
  columns_exhausted_ = rebuilding_ = false;
  memory_ = {};
  if (!units_tried_.has(run_.unit)) start_direct();
  look_again_ = true;
  return true;
}

void BlobRun::look_at_columns(BootTime now) {
  if (columns_exhausted_) return;
  const std::uint32_t k = open_->blob.shape.k;
  std::size_t there = 0;
  // A column that fails is replaced at once; its replacement may answer at once, too.
  for (std::size_t i = 0; i < k; ++i) {
    while (true) {
      if (i == columns_.size() && !add_column()) return give_up();
      Column& column = columns_[i];
      if (column.fetch == nullptr || (column.fetch->result && *column.fetch->result)) {
        ++there;
        break;
      }
      if (!column.fetch->result) {
        const bool stalled = has_stalled(*column.fetch, now);
        if (stalled && direct_skipped_) {  // its volume is suspect, but may be the better one
          start_direct();
          look_again_ = true;
        }
        if (!stalled || !next_unit()) break;
        fetcher_->note_stalled(*open_, *column.fetch);
        why_[column.fetch->slot] = Errc::timeout;
      } else {
        fail_slot(column.fetch->slot, column.fetch->result->error());
      }
      columns_.erase(columns_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (there == k) finish();
}

// Too few columns. A direct read that is only late may still come; one that was skipped is tried.
void BlobRun::give_up() {
  columns_exhausted_ = true;
  columns_.clear();
  if (direct_skipped_) start_direct();
  if (direct_ != nullptr) {
    if (direct_->result) look_at_direct(direct_->began);
    return;
  }
  if (begin_again()) return;
  const BlobShape& shape = open_->blob.shape;
  std::uint32_t gone = 0, damaged = 0;
  for (std::uint32_t slot = 0; slot < shape.slots(); ++slot) {
    auto why = why_[slot] ? why_[slot] : open_->lost[slot];
    if (open_->blob.locations[slot].volume.value == 0) why = Errc::not_found;
    if (why == Errc::not_found) ++gone;
    if (why == Errc::corrupt || why == Errc::invalid) ++damaged;
  }
  const Errc code = gone == shape.slots()      ? Errc::not_found
                    : gone + damaged > shape.m ? Errc::corrupt
                                               : Errc::unavailable;
  outcome_.emplace(fail(code, "fewer than " + std::to_string(shape.k) + " of " +
                                  std::to_string(shape.slots()) +
                                  " fragments are readable: " + std::to_string(gone) +
                                  " are gone, " + std::to_string(damaged) + " are corrupt"));
}

void BlobRun::finish() {
  if (direct_ != nullptr) fetcher_->watch(std::exchange(direct_, nullptr));
  if (open_->blob.shape.k == 1) {
    outcome_.emplace(std::move(*columns_[0].fetch->result));
  } else {
    outcome_.emplace(rebuild());
  }
  columns_.clear();
  memory_ = {};
}

// This one; and those that come later and that no read will give, while there is memory for them.
std::vector<std::uint32_t> BlobRun::units_to_rebuild(const std::vector<std::uint32_t>& present) {
  std::vector<std::uint32_t> units{run_.unit};
  for (std::uint32_t unit = run_.unit + 1; unit < open_->blob.shape.k; ++unit) {
    const std::uint32_t slot = open_->layout.slot_of_unit(run_.stripe, unit);
    const bool read = std::find(present.begin(), present.end(), unit) != present.end();
    if (read || !comes_later(*open_, run_, end_, unit) || !fetcher_->is_out(*open_, slot)) continue;
    if (!fetcher_->may_keep() || !memory_.grow(run_.length)) break;
    units.push_back(unit);
  }
  return units;
}

KeptColumns::Column BlobRun::kept_column(std::uint32_t unit, Piece piece) const {
  const std::uint32_t slot = open_->layout.slot_of_unit(run_.stripe, unit);
  return {open_->blob.fragment(slot), run_.fragment_offset, std::move(piece)};
}

void BlobRun::keep(std::vector<KeptColumns::Column> columns) {
  const std::size_t bytes = columns.size() * run_.length;
  memory_.shrink_to(bytes);  // the rest is used up
  if (bytes == 0 || !fetcher_->may_keep()) return;
  fetcher_->kept.keep(std::move(columns), std::exchange(memory_, {}));
}

Result<Piece> BlobRun::rebuild() {
  const BlobShape& shape = open_->blob.shape;
  TRY(codec, fetcher_->context.codecs.get(shape.k, shape.m));
  BufferPool& buffers = fetcher_->context.buffers;
  std::vector<std::uint32_t> present;
  std::vector<ConstBytes> bytes;
  std::vector<Buffer> padded;
  std::vector<KeptColumns::Column> later;
  for (const Column& column : columns_) {
    present.push_back(column.unit);
    if (column.length == run_.length) {
      const Piece& piece = column.fetch->result->value();
      bytes.push_back(piece.bytes());
      if (comes_later(*open_, run_, end_, column.unit))
        later.push_back(kept_column(column.unit, piece));
      continue;
    }
    Buffer whole = buffers.get(run_.length);
    if (column.length > 0) {
      std::memcpy(whole.data(), column.fetch->result->value().bytes().data(), column.length);
    }
    std::memset(whole.data() + column.length, 0, run_.length - column.length);
    bytes.push_back(whole.bytes());
    padded.push_back(std::move(whole));
  }
  const std::vector<std::uint32_t> wanted = units_to_rebuild(present);
  std::vector<Piece> rebuilt(wanted.size());
  std::vector<MutBytes> out;
  for (Piece& piece : rebuilt) {
    piece.memory = buffers.get(run_.length);
    piece.length = run_.length;
    out.push_back(piece.memory.mutable_bytes());
  }
  CHECK_OK(codec->rebuild(present, bytes, wanted, out));
  for (std::size_t i = 1; i < wanted.size(); ++i) {
    later.push_back(kept_column(wanted[i], std::move(rebuilt[i])));
  }
  keep(std::move(later));
  return std::move(rebuilt[0]);
}

std::optional<VolumeId> BlobRun::waits_for() const {
  if (done() || direct_ == nullptr || direct_->result) return std::nullopt;
  return direct_->volume;
}

std::optional<VolumeId> BlobRun::late_volume(BootTime now) const {
  const auto volume = waits_for();
  return volume && now - direct_->began >= kHedgeAfter ? volume : std::nullopt;
}

BootTime BlobRun::next_look(BootTime now) const {
  BootTime next = BootTime::max();
  const auto consider = [&](BootTime when) {
    if (when > now) next = std::min(next, when);
  };
  if (waits_for()) {
    consider(direct_->began + kHedgeAfter);
    consider(direct_->began + limits::kNoProgress);
    consider(direct_->began + limits::kStallPatience);
  }
  for (const Column& column : columns_) {
    if (column.fetch != nullptr && !column.fetch->result) {
      consider(column.fetch->began + limits::kNoProgress);
      consider(column.fetch->began + limits::kStallPatience);
    }
  }
  return next;
}

bool BlobRun::can_split() const {
  const bool corrupt = std::find(why_.begin(), why_.end(), Errc::corrupt) != why_.end();
  const std::uint64_t first = run_.unit_offset / limits::kBlockBytes;
  const std::uint64_t last = (run_.unit_offset + run_.length - 1) / limits::kBlockBytes;
  return done() && outcome_->has_error() && corrupt && first != last;
}

}  // namespace penstock
