// Reads of fragments for one reader: at once if the volume has the bytes in memory, else side by
// side on the reader's executor. Keeps what was learned of each fragment, tells the membership and
// reports damage once per fragment.
// Ownership: shared by the reader and its running reads, which may answer after the reader is gone.
// Thread-safety: one executor.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "penstock/alarm.h"
#include "penstock/index_mask.h"
#include "penstock/limits.h"
#include "penstock/wakeup.h"
#include "server/blobs/blob_context.h"
#include "server/blobs/blob_reader.h"
#include "server/blobs/kept_columns.h"

namespace penstock {

static_assert(limits::kFragmentsPerStripeMax <= IndexMask::kMax);

// A blob being read.
struct OpenBlob {
  BlobRef blob;
  Layout layout;
  // By slot: why this fragment is of no use to this reader.
  std::array<std::optional<Errc>, limits::kFragmentsPerStripeMax> lost{};
  IndexMask reported;  // slots
};

// How much of the columns of `run` unit `unit` of its stripe has; what is missing are zeros.
std::uint64_t stored_columns(const OpenBlob& open, const Layout::Run& run, std::uint32_t unit);
// Does a reader who wants the blob up to `end` want these columns of a data unit after `run`?
bool comes_later(const OpenBlob& open, const Layout::Run& run, std::uint64_t end,
                 std::uint32_t unit);

// One read of one fragment.
struct Fetch {
  std::optional<Result<Piece>> result;  // empty = under way
  std::uint32_t slot = 0;
  VolumeId volume;
  BootTime began{};
  bool given_up = false;       // its answer is not waited for any more
  std::optional<Alarm> watch;  // until the answer: its volume may have stalled
};

class BlobFetcher : public std::enable_shared_from_this<BlobFetcher> {
 public:
  BlobFetcher(BlobContext& blob_context, BlobReader::Damaged damaged, MemoryUser memory_user)
      : context(blob_context), user(memory_user), damaged_(std::move(damaged)) {}
  // One without reads and memory, in the place of this one, which reports no more.
  std::shared_ptr<BlobFetcher> successor();

  // The bytes, if they can be had without waiting; an error is left to fetch().
  std::optional<Piece> read_now(const OpenBlob& open, std::uint32_t slot, std::uint64_t offset,
                                std::uint64_t length, bool file_allowed);
  // The columns of `run` in `slot`, if they are kept.
  std::optional<Piece> take_kept(const OpenBlob& open, const Layout::Run& run, std::uint32_t slot);
  // Keeps the bytes of `run` if a unit that comes later will have to be rebuilt with them.
  void keep_to_rebuild(const OpenBlob& open, const Layout::Run& run, std::uint64_t end,
                       const Piece& piece);
  // No read of this fragment would help: it failed, or nobody asks its volume now.
  bool is_out(const OpenBlob& open, std::uint32_t slot) const;
  bool misses_fragments(const OpenBlob& open) const;  // one at least is out
  // Is there so much memory that columns may be kept for pieces that come later?
  bool may_keep() const;
  // Starts a read. Pre: executor is set.
  std::shared_ptr<Fetch> fetch(OpenBlob& open, std::uint32_t slot, std::uint64_t offset,
                               std::uint64_t length, bool file_allowed);
  // What a failed read says of the fragment and its volume.
  void note_failure(OpenBlob& open, std::uint32_t slot, const Error& error);
  // No progress for 2 s.
  void note_stalled(OpenBlob& open, Fetch& fetch);
  // The race was won by others: is it slow, or does its volume not answer at all?
  void watch(std::shared_ptr<Fetch> fetch);
  // The reader is gone: no more reports. Reads under way hold no memory to speak of: a piece is
  // made by the thread that fills it, of which a volume has few.
  void forget() {
    forgotten_ = true;
    damaged_ = nullptr;
    memory = {};
    window_memory = {};
    kept = {};
  }

  BlobContext& context;
  const MemoryUser user;
  std::optional<Executor> executor;
  Trace trace;  // of whoever reads
  Wakeup wakeup;
  // Of the pieces on their way; given back with the reader, though a volume may never answer.
  MemoryBudget::Lease memory;
  MemoryBudget::Lease window_memory;
  KeptColumns kept;

 private:
  static Awaitable<void> run(std::shared_ptr<BlobFetcher> self, std::shared_ptr<Fetch> fetch,
                             std::shared_ptr<VolumeClient> client, FragmentReadRequest request,
                             Deadline deadline);
  Task<Piece> read_patiently(Fetch& fetch, std::shared_ptr<VolumeClient> client,
                             FragmentReadRequest request, Deadline deadline);
  BlobReader::Damaged damaged_;
  bool forgotten_ = false;
};

}  // namespace penstock
