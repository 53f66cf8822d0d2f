// The register half of a volume in memory: the acceptor's rules (R2 … R9, R12) without disk, behind
// a network that a test controls call by call.
#pragma once
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/fake/fake_clock.h"
#include "tests/fake/volume_without_upkeep.h"

namespace penstock {

// What the network does with one call.
struct Fate {
  bool lose_request = false;
  bool lose_reply = false;
  bool twice = false;           // a copy of the request arrives later
  Duration request_delay{200};  // before the acceptor sees it
  Duration reply_delay{200};
  std::optional<Errc> refusal{};  // the acceptor answers that, and does nothing
};
enum class RegisterCall : std::uint8_t { prepare, accept, read };

class FakeAcceptor final : public VolumeWithoutUpkeep {
 public:
  struct Row {
    Accepted accepted;                      // without inline bytes
    std::map<OpId, SharedBytes> inline_of;  // inline rows by op-id
    bool unreadable = false;                // answers `corrupt`
    std::uint32_t partitions = 1;
  };
  using Hook = std::function<Fate(VolumeId, RegisterCall, const RegisterKey&)>;

  FakeAcceptor(VolumeId id, FakeClock& clock, boost::asio::io_context& io)
      : id_(id), clock_(clock), io_(io) {}

  // ---- what a test sets and looks at
  Hook fate;  // unset: a quick network that loses nothing
  // Called before a call looks at what is here.
  std::function<void()> before_list, before_adopt, before_status;
  VolumeStatus::State state = VolumeStatus::State::open;
  bool full = false;
  bool cached = false;                             // read_now() answers
  bool knows_ballots = false;                      // holds_now() answers
  Duration clock_offset{};                         // of its own clock
  std::size_t listed_max = limits::kScanBatchMax;  // a list of hints gives no more at once
  Epoch epoch;
  SharedBytes map;  // adopted last
  std::map<BucketId, BucketNumber> fences;
  std::map<RegisterKey, Row> rows;
  std::map<RegisterKey, std::vector<Hint>> hints;  // of the last accept
  std::map<HintName, StoredHint> stored_hints;     // all that were not dropped
  std::map<HintName, BootTime> hint_arrivals;      // none: it is just committed
  std::map<std::string, std::string> notes;        // of other volumes
  bool takes_notes = true;                         // else they time out
  std::uint64_t ceiling = 0, floor = 0, horizon = 0;
  struct Counters {
    int prepares = 0, accepts = 0, reads = 0, reads_now = 0, ballots_now = 0, whole_reads = 0,
        drops = 0;
  };
  Counters counters;  // calls that arrived
  // Forgets what is not durable.
  void restart();

  VolumeId id() const override { return id_; }
  VolumeStatus status() const override;
  Task<PrepareReply> prepare(std::shared_ptr<const PrepareRequest> request,
                             Deadline deadline) override;
  Task<AcceptReply> accept(std::shared_ptr<const AcceptRequest> request,
                           Deadline deadline) override;
  Task<Accepted> read(std::shared_ptr<const ReadRequest> request, Deadline deadline) override;
  std::optional<Result<Accepted>> read_now(const ReadRequest& request) override;
  bool holds_now(const ReadRequest& request, const Ballot& ballot) override;

  Task<> drop(std::shared_ptr<const DropRequest> request, Deadline deadline) override;

  // Not of this fake: `unavailable`.
  Task<ScanReply> scan(std::shared_ptr<const ScanRequest> request, Deadline deadline) override;
  Task<std::unique_ptr<FragmentWriter>> write_fragment(FragmentId id, FragmentShape shape,
                                                       Deadline deadline) override;
  Task<Piece> read_fragment(FragmentReadRequest request, Deadline deadline) override;
  std::optional<Result<Piece>> read_fragment_now(const FragmentReadRequest& request) override;
  Task<std::vector<FragmentId>> pin(std::vector<FragmentId> ids, Deadline deadline) override;
  Task<> remove_fragment(FragmentId id, Deadline deadline) override;
  Task<HintListReply> list_hints(HintListRequest request, Deadline deadline) override;
  Task<Ballot> read_hint(HintName name, Deadline deadline) override;
  Task<> drop_hints(std::vector<HintName> names, Deadline deadline) override;
  Task<RegisterListReply> list_registers(RegisterListRequest request, Deadline deadline) override;
  // All groups share `epoch`.
  Task<> adopt(std::shared_ptr<const AdoptRequest> request, Deadline deadline) override;
  Task<SharedBytes> read_map(Deadline deadline) override;
  Task<JoinState> read_join_state(Deadline deadline) override;
  Task<NoteReply> read_note(std::string name, Deadline deadline) override;
  Task<> put_note(std::string name, std::string bytes, Deadline deadline) override;

 private:
  template <class Reply>
  using Work = std::function<Result<Reply>()>;
  template <class Reply>
  Task<Reply> deliver(RegisterCall call, const RegisterKey& key, Work<Reply> work,
                      Deadline deadline);
  template <class Reply>
  static Task<Reply> travel(FakeAcceptor* self, Fate fate, Work<Reply> work, Deadline deadline);
  template <class Reply>
  static Awaitable<void> arrive_later(FakeAcceptor* self, BootTime when, Work<Reply> work);

  Result<> gate(const RegisterKey& key, const Round& round);
  Result<PrepareReply> on_prepare(const PrepareRequest& request);
  Result<AcceptReply> on_accept(const AcceptRequest& request);
  Result<Accepted> on_read(const ReadRequest& request);
  std::uint64_t limit() const { return std::max(floor, horizon); }
  Ballot bar(const RegisterKey& key);

  VolumeId id_;
  FakeClock& clock_;
  boost::asio::io_context& io_;
  std::map<RegisterKey, Ballot> promises_;
};

}  // namespace penstock
