// A range of a blob, or of several blobs in a row -> verified pieces in order. What fails is
// rebuilt from any k columns.
//
// next() gives the first bytes as soon as they are verified. Bytes that volumes have in memory come
// without waiting and without being fetched ahead; otherwise up to eight pieces are under way at
// once (two of a blob that misses fragments; one while the memory budget is more than half used, or
// less than an eighth would be left to other readers). With many readers pieces get smaller;
// without memory for the smallest it waits: 2 s before the first byte, later as long as next() may.
// Bytes that could not be used are given back and come again: a reader at rest holds no memory.
// A late volume is hedged by reading the same columns from others (at most 5 % extra reads, not
// before 20 ms, never when all are late). After 2 s without an answer it is suspect and its columns
// are rebuilt in any case.
// Thread-safety: one executor, one call at a time.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/memory_budget.h"
#include "penstock/volume_client.h"
#include "server/records/object_record.h"

namespace penstock {

struct BlobContext;

// A range [offset, offset + length) of one blob.
struct BlobRange {
  BlobRef blob;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

class BlobReader {
 public:
  // `ranges` are read one after another. `file_pieces`: a Piece may be pages that are sent as they
  // are (in-process volumes). `damaged` is called for each fragment that is missing or corrupt and
  // was asked for, once per reader (it logs them), never after the reader is gone.
  using Damaged = std::function<void(const BlobRef&, std::uint32_t slot, const Error&)>;
  // Pre: every range lies within its blob. `account`: whose memory the bytes take.
  // Made by Blobs::read().
  BlobReader(BlobContext& context, std::vector<BlobRange> ranges, bool file_pieces, Damaged damaged,
             MemoryAccount account);
  ~BlobReader();
  // The next verified bytes, at most 512 KiB; an empty piece (length 0) at the end.
  // Errors: corrupt or unavailable - fewer than k columns of some stripe are readable; not_found -
  // all fragments are gone (the object may have been replaced: read its register again);
  // overloaded; timeout. After an error the reader is of no more use.
  Task<Piece> next(Deadline deadline);
  // The last `count` bytes that next() gave were not used, and their piece is gone: they come
  // again. Gives back all memory; the next pieces are small and grow while they are used up.
  // Pre: next() gave so many.
  void put_back(std::uint64_t count);
  const std::vector<BlobRange>& ranges() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// As Blobs::read_whole().
Task<std::string> read_blob(BlobContext& context, const BlobRef& blob, Deadline deadline);

}  // namespace penstock
