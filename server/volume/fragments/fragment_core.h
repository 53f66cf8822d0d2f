// What the fragment store, its writers and its jobs on the workers share: the parts, the
// bookkeeping and the latch that the first failed change sets. Internal to server/volume.
//
// Thread-safety: all methods from any thread. Methods that block say so.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/volume/disk/pending_calls.h"
#include "server/volume/fragments/fragment_big_files.h"
#include "server/volume/fragments/fragment_cache.h"
#include "server/volume/fragments/fragment_leases.h"
#include "server/volume/fragments/fragment_store.h"
#include "server/volume/fragments/gathered_writes.h"
#include "server/volume/fragments/segment.h"

namespace penstock {

// Where a row's extent is; nullopt for a file.
std::optional<ExtentSpan> span_of(const ExtentRow& row);

class FragmentCore : public std::enable_shared_from_this<FragmentCore> {
 public:
  FragmentCore(FragmentStoreParts parts, const FragmentStoreOptions& options);
  // Blocks; once, before everything else.
  Result<> open();

  // Errors: unavailable - a change failed before, or the store is closed.
  Result<> check_open() const;
  // The first failure closes the store for good and is reported. One for want of descriptors or
  // memory is none: it fails the one call.
  void fail_for_good(const Error& error);
  // The disk does not answer: as FragmentStore::abandon().
  void abandon(const Error& why);
  // No more jobs for the workers: the store is being destroyed.
  void close();

  // The row as decoded; nullopt: not held. Blocks. Errors: corrupt; io.
  Result<std::optional<ExtentRow>> find_row(const FragmentId& id) const;
  // A handle that can be read; from the cache, or by reading row and tail. Blocks.
  // Errors: not_found; corrupt; io.
  Result<FragmentHandlePtr> load(const FragmentId& id);

  // After the row of `id` was erased or names another place: what it named is free once nobody
  // reads it. `old_file` is left to the caller.
  void forget_place(const FragmentId& id, const ExtentRow& old_row);
  // Gives space back that no row ever named. A file is removed by a job.
  void discard(const std::optional<ExtentSpan>& span, std::string temporary_name);

  void count_added(std::uint64_t data_bytes);
  void count_removed(std::uint64_t data_bytes);
  void count_corrupt() { ++corrupt_count_; }
  FragmentStatistics statistics() const;

  FragmentStoreParts parts;
  const std::shared_ptr<PendingCalls> pending = std::make_shared<PendingCalls>();
  const std::shared_ptr<SegmentSet> segments;  // holds release their spans into it after the store
  const std::shared_ptr<GatheredWrites> small_writes;
  BigFiles files;
  FragmentLeases leases;
  const std::shared_ptr<FragmentHolds> holds;
  FragmentCache cache;
  std::atomic<std::size_t> reads_waiting{
      0};  // jobs on the read worker; bounded by their submitters

 private:
  std::atomic<bool> closed_{false};
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
  std::mutex submit_mutex_;  // close() waits for a discard() that is handing a job over
  std::atomic<std::uint64_t> fragment_count_{0};
  std::atomic<std::uint64_t> fragment_bytes_{0};
  std::atomic<std::uint64_t> corrupt_count_{0};
};

}  // namespace penstock
