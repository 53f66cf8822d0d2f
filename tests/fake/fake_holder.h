// A holder of fragments in memory, with leases and with faults that a test sets. It checks what it
// is given: block checksums, whole blocks, announced lengths, one append at a time.
// Thread-safety: one executor.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "penstock/wakeup.h"
#include "tests/fake/volume_without_upkeep.h"

namespace penstock {

// Faults; a test changes them at any time.
struct FakeFaults {
  VolumeStatus::State state = VolumeStatus::State::open;
  std::string reason{};    // as VolumeStatus has it
  bool full = false;       // write_fragment() and append() answer full
  int fail_append = 0;     // the n-th append from now on fails with `io` (1 = the next)
  int stall_append = 0;    // the n-th append from now on never answers
  bool fail_open = false;  // write_fragment() answers `open_error`
  Errc open_error = Errc::io;
  bool fail_commit = false;
  bool fail_pin = false, throw_probe = false;
  std::function<void()> during_pin;
  bool fail_removal = false;  // remove_fragment_if() answers `io`
  bool keep_pieces = false;   // append() answers, but the piece stays in FakeHolder::kept
  bool stall_commit = false;
  bool stall_open = false;
  bool stall_reads = false;  // reads never answer
  int late_reads = 0;        // reads answer so many turns of their executor later
  Errc read_error = Errc{};  // with fail_reads
  bool fail_reads = false;
  bool cached = false;  // read_fragment_now() answers
  int piece_file =
      -1;  // where a caller that takes files is told that pieces lie, from its begin on
};

class FakeHolder final : public VolumeWithoutUpkeep {
 public:
  explicit FakeHolder(VolumeId id);
  ~FakeHolder() override;

  FakeFaults faults;
  // What it did.
  struct Counters {
    int reads = 0;      // read_fragment()
    int reads_now = 0;  // answered by read_fragment_now()
    int appends = 0;
    int pins = 0;
    int reader_pins = 0, probes = 0;
    int writers_open = 0;
    std::uint64_t bytes_read = 0;
  };
  Counters counters;

  std::vector<Buffer> kept;  // as a disk that has not written them yet

  // Committed fragments.
  // What the next lists and conditional removals think of a fragment; a fresh one is pinned.
  std::set<FragmentId> unpinned;
  std::set<FragmentId> being_read;                    // pinned by a reader
  Duration unpinned_for = std::chrono::hours(1);      // what a list says of the unpinned ones
  std::size_t listed_max = limits::kFragmentListMax;  // a list gives no more at once

  std::size_t fragment_count() const { return fragments_.size(); }
  bool holds(FragmentId id) const { return fragments_.contains(id); }
  std::uint64_t fragment_bytes(FragmentId id) const { return fragments_.at(id)->size(); }
  void lose_all() { fragments_.clear(); }
  // Reads that touch this byte answer `corrupt`.
  void corrupt(FragmentId id, std::uint64_t offset) { bad_blocks_[id].insert(offset / kBlock); }
  // All that stalls goes on (and answers) when released, with this if it is an error.
  void release(Result<> answer = {});

  VolumeId id() const override { return id_; }
  VolumeStatus status() const override;
  Task<std::unique_ptr<FragmentWriter>> write_fragment(FragmentId id, FragmentShape shape,
                                                       Deadline deadline) override;
  Task<Piece> read_fragment(FragmentReadRequest request, Deadline deadline) override;
  std::optional<Result<Piece>> read_fragment_now(const FragmentReadRequest& request) override;
  Task<std::vector<FragmentId>> pin(std::vector<FragmentId> ids, Deadline deadline) override;
  Task<> remove_fragment(FragmentId id, Deadline deadline) override;
  Task<> probe(Deadline deadline) override;
  Task<std::vector<FragmentId>> pin_for_reader(std::vector<FragmentId> ids,
                                               Deadline deadline) override;
  Task<> remove_fragment_if(FragmentId id, RemovalRule rule, Deadline deadline) override;
  Task<std::vector<FragmentEntry>> list_fragments(std::optional<FragmentId> after,
                                                  std::uint32_t count, Deadline deadline) override;

  // Registers are no business of this fake: `unavailable`.
  Task<PrepareReply> prepare(std::shared_ptr<const PrepareRequest>, Deadline) override;
  Task<AcceptReply> accept(std::shared_ptr<const AcceptRequest>, Deadline) override;
  Task<Accepted> read(std::shared_ptr<const ReadRequest>, Deadline) override;
  std::optional<Result<Accepted>> read_now(const ReadRequest&) override { return std::nullopt; }
  bool holds_now(const ReadRequest&, const Ballot&) override { return false; }
  Task<ScanReply> scan(std::shared_ptr<const ScanRequest>, Deadline) override;
  Task<> drop(std::shared_ptr<const DropRequest>, Deadline) override;

 private:
  friend class FakeFragmentWriter;  // one fake in two classes
  static constexpr std::uint64_t kBlock = limits::kBlockBytes;
  Result<Piece> piece_of(const FragmentReadRequest& request);
  Task<> stall();
  VolumeId id_;
  std::map<FragmentId, std::shared_ptr<std::vector<std::byte>>> fragments_;
  std::map<FragmentId, FragmentOwner> owners_;
  std::map<FragmentId, std::set<std::uint64_t>> bad_blocks_;
  std::vector<Completion<void>> stalled_;
};

}  // namespace penstock
