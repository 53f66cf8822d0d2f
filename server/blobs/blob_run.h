// One run of a blob (bytes of one unit) on its way to the reader: from its own slot, or, when that
// one is missing, corrupt, closed or late, from the same columns of any k others.
//
//   direct read ── ok ──────────────────────────────────────────────► outcome
//      │ failed, or late with budget: start_columns()
//      ▼
//   k columns ── one fails or stalls: add_column() ── none left ──► outcome: error
//      │ all there: finish()
//      └───────────────────────────────────────────────────────────► outcome
//
// Where volumes only have too much to do, it begins again in the place of an error.
// Columns are as long as the run. Bytes past the end of a stored data unit are zeros and need no
// read. Thread-safety: one executor.
#pragma once
#include <array>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/blobs/blob_fetch.h"

namespace penstock {

class BlobRun {
 public:
  // `end`: of what the reader wants of the blob.
  BlobRun(std::shared_ptr<BlobFetcher> fetcher, std::shared_ptr<OpenBlob> open, Layout::Run run,
          std::uint64_t end, bool file_allowed);

  // Looks at what has arrived and starts what is needed next. `hedge_allowed`: a late direct read
  // may be raced against its columns.
  void look(BootTime now, bool hedge_allowed);
  // When look() has to be called again, even if nothing arrives.
  BootTime next_look(BootTime now) const;
  bool done() const { return outcome_.has_value(); }
  // Only columns are left, and there is no memory for them: look() tries again.
  bool wants_memory() const { return wants_memory_; }
  // Pre: done().
  Result<Piece> take() { return std::move(*outcome_); }

  // The volume of the direct read, if it is under way for longer than a hedge waits.
  std::optional<VolumeId> late_volume(BootTime now) const;
  // The volume of the direct read, if it is under way.
  std::optional<VolumeId> waits_for() const;
  // It failed because of corrupt blocks and is longer than one: its halves may be readable.
  bool can_split() const;
  std::shared_ptr<OpenBlob> open() const { return open_; }
  const Layout::Run& run() const { return run_; }

 private:
  struct Column {
    std::uint32_t unit = 0;
    std::uint64_t length = 0;      // stored bytes; the rest of the run's length are zeros
    std::shared_ptr<Fetch> fetch;  // null if length is 0
  };
  using Columns = boost::container::static_vector<Column, limits::kFragmentsPerStripeMax>;

  void start_direct();
  void look_at_direct(BootTime now);
  void start_columns();
  bool take_memory();
  bool begin_again();
  void look_at_columns(BootTime now);
  bool add_column();
  std::optional<std::uint32_t> next_unit() const;
  void fail_slot(std::uint32_t slot, const Error& error);
  bool has_stalled(const Fetch& fetch, BootTime now) const;
  void finish();
  Result<Piece> rebuild();
  std::vector<std::uint32_t> units_to_rebuild(const std::vector<std::uint32_t>& present);
  KeptColumns::Column kept_column(std::uint32_t unit, Piece piece) const;
  void keep(std::vector<KeptColumns::Column> columns);
  void give_up();

  std::shared_ptr<BlobFetcher> fetcher_;
  std::shared_ptr<OpenBlob> open_;
  Layout::Run run_;
  std::uint64_t end_;
  bool file_allowed_;
  std::shared_ptr<Fetch> direct_;
  bool raced_ = false;  // its volume is slow: beside its columns, to see whether it still is
  bool direct_skipped_ = false;  // its volume is suspect: only if nothing else helps
  bool rebuilding_ = false;
  bool columns_exhausted_ = false;
  bool wants_memory_ = false;
  bool look_again_ = false;
  Columns columns_;
  IndexMask units_tried_;
  std::array<std::optional<Errc>, limits::kFragmentsPerStripeMax> why_{};  // by slot
  MemoryBudget::Lease memory_;
  std::optional<Result<Piece>> outcome_;
};

}  // namespace penstock
