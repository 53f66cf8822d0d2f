// Bodies as blobs: the one way for those outside of this room to write one, to read it, to keep it
// for a reader who takes long, and to make a lost fragment of it again. Which layout a new blob
// gets, and on which volumes, is decided here, by the map and by what is known of the volumes.
//
// Ownership: borrows what it is made of. It outlives its writers and readers, and the calls that
// they leave behind at late volumes.
// Memory: bytes under way count in the budget, in the name of the account that is given.
// Thread-safety: all methods from any I/O thread; each writer and reader belongs to one executor.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/limits.h"
#include "penstock/memory_budget.h"
#include "penstock/runtime.h"
#include "placement/codec.h"
#include "server/blobs/blob_reader.h"
#include "server/blobs/blob_writer.h"
#include "server/membership/membership.h"

namespace penstock {

class HedgeBudget;

struct BlobOptions {
  // R10: a lease younger than this, by the writer's clock, needs no new pin. At most half of what
  // holders grant.
  Duration lease_fresh = limits::kLeaseFresh;
  // A read that takes longer pins what it has still to read, and again each time. A third of the
  // grace that readers have, or less.
  Duration reader_pin_every = limits::kReaderPinEvery;
  // How often connections of this process to servers were made or have broken: with each the holder
  // of a lease may have started anew. From any thread; empty: there are no connections.
  std::function<std::uint64_t()> connection_changes{};
};

class Blobs {
 public:
  Blobs(Membership& membership, Clock& clock, Random& random, BufferPool& buffers,
        MemoryBudget& budget, CodecCache& codecs, BlobOptions options = {});
  ~Blobs();

  // Bodies up to so many bytes lie beside their record: no blob is made of them.
  std::uint64_t inline_bytes_max() const;

  // ---- writing
  // What write() would say of the volumes, by what is known of them; asks none.
  Result<> could_write(std::uint64_t size_bytes) const;
  // Picks the layout and opens the fragments, which belong to `owner`: only its registers may name
  // them. Pre: size_bytes > 0, known. Waits for memory, at most limits::kWriteMemoryWait.
  // Errors: unavailable - too few usable volumes; full - all are full; overloaded - no memory.
  Task<std::unique_ptr<BlobWriter>> write(FragmentOwner owner, std::uint64_t size_bytes,
                                          Deadline deadline, MemoryAccount account = {});
  // A blob at 1 + m whatever its size (manifest pages).
  Task<std::unique_ptr<BlobWriter>> write_replicated(FragmentOwner owner, std::uint64_t size_bytes,
                                                     Deadline deadline);

  // ---- reading
  // As the constructor of BlobReader says. Pre: every range lies within its blob.
  BlobReader read(std::vector<BlobRange> ranges, bool file_pieces, BlobReader::Damaged damaged,
                  MemoryAccount account = {});
  // The whole of a small blob in memory (manifest pages). Errors: as BlobReader::next().
  Task<std::string> read_whole(const BlobRef& blob, Deadline deadline);
  // Asks the holders not to remove what an update frees, while a reader still needs it. Best
  // effort: a reader that loses its fragments all the same fails, it never sends wrong bytes. Ends
  // when all holders have answered, or at `deadline`.
  Awaitable<void> pin_for_reader(std::vector<BlobRef> blobs, Deadline deadline);
  Duration reader_pin_every() const;

  // ---- fragments made again
  // How many more fragments of the blob may be lost: those that lie on open volumes, less k.
  // Negative: it cannot be read now.
  int spares(const BlobRef& blob) const;
  // Slots on volumes that do not stay, and slots that were never written if there is a volume for
  // them now.
  std::vector<std::uint32_t> misplaced_slots(const BlobRef& blob) const;
  // Makes the fragment of `slot` on a volume that has none of the blob: copied from where it lies
  // if that can still be read, else computed from any k others, verified block by block on the way.
  // It is durable, with a generation of its own and the lease of one just written; no record names
  // it yet. Errors: unavailable - no volume is left for it; unavailable, corrupt - fewer than k
  // other fragments can be read; full, io, ... - what the target says; overloaded - no memory;
  // timeout.
  Task<Location> make_again(FragmentOwner owner, BlobRef blob, std::uint32_t slot,
                            Deadline deadline);

  // How many extra reads may be sent to get round late volumes.
  HedgeBudget& hedges();

 private:
  const std::unique_ptr<BlobContext> context_;
};

}  // namespace penstock
