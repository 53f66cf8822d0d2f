// A stream of bytes -> stripes -> fragments -> durable on every slot. Immutable once committed.
//
// The caller receives straight into the writer's memory, hashes it while it is hot, and says how
// much it filled:
//   CO_TRY(writer, co_await blobs.write(owner, left, deadline));
//   while (left > 0) {
//     CO_TRY(space, co_await writer->space());
//     n = read into space; hash;
//     CO_CHECK(co_await writer->filled(n));
//   }
//   CO_TRY(blob, co_await writer->commit(deadline));
// Parity is coded in 64 KiB columns as bytes arrive, so memory is a few pieces and m units, not
// k + m units. Under way at once, while they go to the volumes: three pieces of data and the parity
// of a stripe; eight and of two while less than an eighth of the memory budget is used; all of an
// upload that is no larger than what others may hold. An upload that was only announced should
// not have a writer yet: it takes all that it needs to its end at once, and space on the disks.
// Ack rule: commit() succeeds when every slot's fragment is synced, except those whose volume
// failed during this upload (error, or 2 s without progress while others went on; 5 s where too
// few did), never fewer than k + min(1, m). A failed one is a zero Location. Before the first byte
// a failed volume costs nothing: the next one of the ring takes its place, or the layout gets
// smaller.
// Which layout: k' = min(k, usable volumes - m) pinned in the BlobRef; small blobs are replicated
// (k = 1, 1 + m).
// Thread-safety: one executor, one call at a time. Destroying it in the middle of a call is safe.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/memory_budget.h"
#include "penstock/runtime.h"
#include "penstock/volume_upkeep.h"
#include "server/blobs/leases.h"
#include "server/records/object_record.h"

namespace penstock {

struct BlobContext;

class BlobWriter {
 public:
  // For Blobs, which says what it does. `replicated`: at 1 + m whatever its size.
  static Task<std::unique_ptr<BlobWriter>> open(BlobContext& context, FragmentOwner owner,
                                                std::uint64_t size_bytes, bool replicated,
                                                Deadline deadline, MemoryAccount account);
  // Destroying it before commit() forgets the fragments; after commit() they stay until a record
  // names them or the sweep.
  ~BlobWriter();

  // Where the next bytes go: 1 byte … 512 KiB, never past the announced size. Waits while too much
  // is in flight. One piece that is filled may be kept by the caller until the next is: it is
  // counted. Pre: not all announced bytes were filled.
  // Errors: unavailable - fewer than k + min(1, m) volumes are left.
  Task<Buffer> space();
  // `count` bytes of the last space() are filled.
  Task<> filled(std::size_t count);
  // Pre: all announced bytes were filled. Durable when it succeeds.
  Task<BlobRef> commit(Deadline deadline);
  // Frees what was written so far, also after commit(). Only before the first accept that names
  // the blob was sent. Takes 2 s at most; what stays is the sweep's.
  Awaitable<void> discard();
  // The pin of R10: every fragment of `blob` has a lease not older than 12 h of the boot clock,
  // counted from when the pin was sent (fresh ones need no call). Returns those that could not be
  // pinned: they count as missing, and no record may name them.
  // Errors: unavailable - fewer than k + min(1, m) fragments could be pinned.
  Task<std::vector<FragmentId>> ensure_leases(const BlobRef& blob, Deadline deadline);

 private:
  struct State;
  explicit BlobWriter(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// The leases of one blob, kept by the writer that wrote it. What was left out once stays out: an
// update that is tried again could leave out one more each time, and less than R10 wants would
// remain.
class WriterLease final : public LeaseKeeper {
 public:
  WriterLease(BlobWriter& writer, BlobRef blob) : writer_(writer), blob_(std::move(blob)) {}
  Task<std::vector<FragmentId>> ensure(Deadline deadline) override;

 private:
  BlobWriter& writer_;
  BlobRef blob_;
};

}  // namespace penstock
