// A network between gateways and volumes that loses, delays, doubles and reorders messages and can
// be cut one way. SimLink is the VolumeClient that a gateway holds for one volume; the volume
// behind it may crash and come back.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/volume_client.h"
#include "tests/sim/sim_time.h"

namespace penstock::sim {

// Where a link leads. `current` is null while the volume is down.
class VolumeHost {
 public:
  virtual ~VolumeHost() = default;
  virtual VolumeId id() const = 0;
  virtual std::shared_ptr<VolumeClient> current() const = 0;
  // Until when a call that arrives now may take, by the volume's own clock: a deadline of the
  // caller's clock means nothing there.
  virtual Deadline bound() const = 0;
  // How often it has gone down: then a connection to it breaks.
  virtual std::uint64_t stops() const = 0;
};

struct NetworkFaults {
  double lose = 0;            // chance that a message (request or answer) is lost
  double duplicate = 0;       // chance that a request arrives twice
  double slow = 0;            // chance of a long delay: reordering
  SimMicros delay_max = 500;  // usual one-way delay
  SimMicros slow_max = 300'000;
  double late = 0;  // chance that a request arrives once more, long after its answer
  SimMicros late_max = 30'000'000;
};

// One direction pair between one gateway and one volume. Shared by the link and the faults that cut
// it.
struct Wire {
  bool cut_requests = false;
  bool cut_answers = false;
  bool no_fragments = false;    // reads of fragments fail
  bool notes_unread = false;    // calls that ask for a note are lost
  bool notes_untold = false;    // calls that tell one
  SimMicros slow_requests = 0;  // later by so much
  SimMicros slow_answers = 0;
  SimMicros slow_writes = 0;                 // fragments are opened later by so much
  SimMicros slow_reads = 0;                  // and read later by so much
  std::shared_ptr<const VolumeHost> host{};  // at the other end; null: no link uses it
};

class SimLink final : public VolumeClient {
 public:
  // `direct`: gateway and volume are in one process: calls go straight through.
  SimLink(SimTime& time, SimRandom& random, const NetworkFaults& faults,
          std::shared_ptr<VolumeHost> host, std::shared_ptr<Wire> wire, bool direct);
  ~SimLink() override;

  VolumeId id() const override;
  VolumeStatus status() const override;
  Task<PrepareReply> prepare(std::shared_ptr<const PrepareRequest> request,
                             Deadline deadline) override;
  Task<AcceptReply> accept(std::shared_ptr<const AcceptRequest> request,
                           Deadline deadline) override;
  Task<Accepted> read(std::shared_ptr<const ReadRequest> request, Deadline deadline) override;
  std::optional<Result<Accepted>> read_now(const ReadRequest& request) override;
  bool holds_now(const ReadRequest& request, const Ballot& ballot) override;
  Task<ScanReply> scan(std::shared_ptr<const ScanRequest> request, Deadline deadline) override;
  Task<> drop(std::shared_ptr<const DropRequest> request, Deadline deadline) override;
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
  Task<HintListReply> list_hints(HintListRequest request, Deadline deadline) override;
  Task<Ballot> read_hint(HintName name, Deadline deadline) override;
  Task<> drop_hints(std::vector<HintName> names, Deadline deadline) override;
  Task<RegisterListReply> list_registers(RegisterListRequest request, Deadline deadline) override;
  Task<> adopt(std::shared_ptr<const AdoptRequest> request, Deadline deadline) override;
  Task<SharedBytes> read_map(Deadline deadline) override;
  Task<JoinState> read_join_state(Deadline deadline) override;
  Task<NoteReply> read_note(std::string name, Deadline deadline) override;
  Task<> put_note(std::string name, std::string bytes, Deadline deadline) override;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace penstock::sim
