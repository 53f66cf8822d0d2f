// The fragments of one volume: written as streams, durable when committed, verified whenever read.
//
// Fragments up to 16 MiB are extents of segment files, which are allocated once and reused; larger
// ones are files of their own. Byte layout: fragment_format.h and server/volume/README.md.
// Durable:   commit() succeeds after data, table, footer and extent row are synced (row and data in
//            parallel: after a crash the footer tells whether the bytes belong to the row).
// Checked:   no byte leaves that did not match its block's CRC; nothing is repaired here.
// Failures:  a failed write or sync is final: `on_failure` is called once, from then on every call
//            answers `unavailable`. A failed read is not.
// Space:     an extent is reused only after the removal of its row is synced and every Piece that
//            may still read it is gone.
// Source:    fsync failures: Rebello et al., "Can Applications Recover from fsync Failures?",
//            ATC'20.
// Ownership: borrows its parts. They outlive the store and the jobs it gave to the workers; a Piece
//            or a FragmentWriter may outlive the store.
// Thread-safety: all methods from any I/O thread; results resume on the caller's executor.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "penstock/limits.h"
#include "penstock/runtime.h"
#include "penstock/volume_client.h"
#include "server/volume/disk/disk.h"
#include "server/volume/fragments/fragment_room.h"
#include "server/volume/fragments/fragment_rows.h"

namespace penstock {

class FragmentCore;

struct FragmentStoreParts {
  Disk& disk;
  ExtentRows& rows;
  Clock& clock;
  Random& random;
  Worker& write_worker;  // pieces, syncs, new files; one thread or several
  Worker& read_worker;   // reads that would block
  BufferPool& buffers;
  FragmentRoom& room;
  std::function<void(const Error&)> on_failure;  // at most once; from a worker
};

struct FragmentStoreOptions {
  // Size of new segments. A fragment that does not fit into one becomes a file.
  std::uint64_t segment_bytes = limits::kSegmentBytes;
  // Tables and places of recently read fragments kept in memory.
  std::size_t cache_bytes = 4 * limits::kMiB;
  // Of those, how many may hold a file of their own open.
  std::size_t read_handles = limits::kReadHandlesPerVolume;
  // What a commit or a pin grants, and what a reader's pin does.
  Duration lease = limits::kFragmentLease;
  Duration reader_pin = limits::kReaderPin;
  // What a start grants to all that is there; no more than a commit grants.
  Duration start_lease = limits::kStartLease;
};

struct FragmentStatistics {
  std::uint64_t fragment_count = 0;
  std::uint64_t fragment_bytes = 0;      // data only
  std::uint64_t segment_free_bytes = 0;  // reusable inside segments
  std::uint64_t segment_count = 0;
  std::uint64_t segment_bytes = 0;  // size of a new one
  std::uint64_t corrupt_count = 0;  // reads that found a fragment damaged, since the start
};

class FragmentStore {
 public:
  // Blocks: scans the extent rows once, removes files that no row names.
  // Errors: corrupt - rows overlap or cannot be read; io.
  static Result<std::unique_ptr<FragmentStore>> open(FragmentStoreParts parts,
                                                     FragmentStoreOptions options = {});
  ~FragmentStore();

  // Reserves the space of `shape`. Writing an id again, with the same bytes, replaces the fragment.
  // Errors: full; unavailable.
  Task<std::unique_ptr<FragmentWriter>> create(FragmentId id, FragmentShape shape,
                                               Deadline deadline = Deadline::max());

  // Errors: not_found; corrupt; invalid - the range is empty, longer than 1 MiB or passes the end;
  // overloaded; io.
  Task<Piece> read(FragmentReadRequest request, Deadline deadline = Deadline::max());
  // The same without I/O, on this thread; nullopt: ask with read(). Cost: one lock, one read from
  // the page cache, the CRC.
  std::optional<Result<Piece>> read_now(const FragmentReadRequest& request);

  // Gives each of `ids` a lease of 24 h from now; returns those that are not held (or whose removal
  // has begun). Leases live in memory: after a start every fragment has a fresh one, and so has
  // each fragment when it is committed. Errors: overloaded - too many leases.
  Task<std::vector<FragmentId>> pin(std::vector<FragmentId> ids,
                                    Deadline deadline = Deadline::max());

  // Readers that take long, for limits::kReaderPin. Returns those that are not held.
  // Errors: overloaded.
  Task<std::vector<FragmentId>> pin_for_reader(std::vector<FragmentId> ids,
                                               Deadline deadline = Deadline::max());

  using Removal = RemovalRule;
  // Removing an absent fragment succeeds. Durable. Open reads go on; the space waits for them.
  // Errors: busy - the rule forbids it now, or being committed or removed by another call.
  Task<> remove(FragmentId id, Removal condition = Removal::always,
                Deadline deadline = Deadline::max());

  // Up to `count` fragments with ids above `after`, ascending; fewer only at the end.
  Task<std::vector<FragmentEntry>> list(std::optional<FragmentId> after, std::size_t count,
                                        Deadline deadline = Deadline::max());

  FragmentStatistics statistics() const;

  // Writes and syncs a few bytes of a file that nobody reads, on the thread of the writes.
  Task<> probe(Deadline deadline);

  // The disk does not answer: every call under way, and every later one, is answered `unavailable`
  // at once. Pieces that wait for the disk are given back, but for what the stuck calls hold.
  void abandon(const Error& why);
  // Answers the calls whose deadline is over with `timeout`, wherever they are.
  void expire(BootTime now);

 private:
  explicit FragmentStore(std::shared_ptr<FragmentCore> core);
  std::shared_ptr<FragmentCore> core_;  // shared with writers and with jobs on the workers
};

}  // namespace penstock
