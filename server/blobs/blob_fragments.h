// The fragments of one upload, each a chain of steps on its own volume: open, append …, commit.
// Chains run side by side; steps of one chain one after another. A volume that fails, or makes no
// progress for 2 s while others do (5 s where too few do), is dropped from the blob; its chain runs
// out by itself.
// Ownership: shared by the writer and its running chains, because a stalled volume may answer long
// after the request is over. Thread-safety: one executor.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/wakeup.h"
#include "server/blobs/blob_context.h"
#include "server/blobs/blob_stripes.h"

namespace penstock {

class BlobFragments : public std::enable_shared_from_this<BlobFragments> {
 public:
  // `volumes`: one per slot, all known to the membership.
  BlobFragments(BlobContext& context, Executor executor, FragmentOwner owner, Layout layout,
                WriteId write_id, const std::vector<VolumeId>& volumes);

  // Opens all fragments. A failure of some is no error here: see dropped().
  Task<> open(Deadline deadline);
  // Queues it behind the earlier pieces of its slot.
  void append(FragmentPiece piece);
  Task<> commit(Deadline deadline);
  // From any thread: something that wait_for() may be waiting for has changed.
  std::function<void()> notifier();
  // Waits until `enough` holds. Errors: as check(); timeout.
  Task<> wait_for(std::function<bool()> enough, Deadline deadline);
  // Errors: unavailable, full - fewer than k + min(1, m) volumes are left.
  Result<> check() const;
  // Memory that belongs to the pieces: given back when none of them is left, or all is committed.
  void keep(MemoryBudget::Lease memory) { memory_->push_back(std::move(memory)); }
  // Stops all chains after their current step; nothing that was not committed becomes visible.
  void abandon();
  // Removes what may have become visible. Best effort, bounded: the sweep is behind it.
  Awaitable<void> remove_all();
  // As BlobWriter::ensure_leases().
  Task<std::vector<FragmentId>> ensure_leases(BlobRef blob, Deadline deadline);

  BlobRef blob() const;
  // Volumes that failed, with the reason.
  std::vector<std::pair<VolumeId, Errc>> dropped() const;

 private:
  enum class StepKind : std::uint8_t { open, append, commit };
  struct Step {
    StepKind kind = StepKind::open;
    FragmentPiece piece;
    Deadline deadline{};  // of an open or a commit: the caller's
  };
  using Memory = std::vector<MemoryBudget::Lease>;
  // Lives with the memory of one piece, which counts until then. `held` is emptied earlier when its
  // volume is dropped.
  struct Credit {
    std::shared_ptr<const void> held;
    std::shared_ptr<const Memory> memory;
  };
  // When the call that gave it was sent, and what connection_changes() was then.
  struct Lease {
    BootTime from;
    std::uint64_t changes = 0;
  };
  struct Slot {
    VolumeId volume;
    Generation generation;
    std::shared_ptr<VolumeClient> client;
    std::unique_ptr<FragmentWriter> writer;
    std::deque<Step> steps;
    std::vector<std::weak_ptr<Credit>> credits;  // of pieces that are still in memory
    std::optional<Errc> error;                   // set = dropped
    bool running = false;                        // a step is under way
    bool commit_sent = false;
    bool committed = false;
    bool removed = false;
    BootTime progress{};    // it got something done then, or something to do after it had nothing
    bool was_late = false;  // at the last look
    std::optional<Lease> lease;
  };
  using Self = std::shared_ptr<BlobFragments>;

  static Awaitable<void> run_chain(Self self, std::uint32_t index);
  static Awaitable<void> run_remove(Self self, std::uint32_t index, Deadline deadline);
  // True: it has a lease from now on.
  static Task<bool> pin_one(Self self, std::uint32_t index, FragmentId id,
                            std::shared_ptr<VolumeClient> client, Deadline deadline);
  Task<> run_step(Slot* slot, Step step, FragmentId id, FragmentShape shape);
  Task<> open_slot(Slot* slot, FragmentId id, FragmentShape shape, Deadline deadline);
  void add_step(std::uint32_t index, Step step);
  void lend(Slot& slot, FragmentPiece& piece);
  enum class Blame : std::uint8_t { nobody, by_error };  // what membership is told of the volume
  void drop(std::uint32_t index, const Error& error, Blame blame);
  void log_dropped(std::uint32_t index, const Error& error) const;
  void note_done(std::uint32_t index, StepKind kind, BootTime began);
  void note_written(Slot& slot) const;
  void note_late(BootTime now);
  void drop_late(BootTime now);
  BootTime next_look(BootTime now, Deadline deadline) const;
  static bool is_busy(const Slot& slot);
  bool late(const Slot& slot, BootTime now, Duration patience) const;
  FragmentId fragment(std::uint32_t index) const;
  Lease lease_from_now() const;
  bool is_fresh(const std::optional<Lease>& lease) const;

  BlobContext& context_;
  Executor executor_;
  FragmentOwner owner_;
  Trace trace_;  // of whoever writes
  Layout layout_;
  WriteId write_id_;
  std::vector<Slot> slots_;
  Wakeup wakeup_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  BootTime resumed_{};   // all were given their time anew then
  bool opened_ = false;  // the first bytes may have come
  bool abandoned_ = false;
};

}  // namespace penstock
