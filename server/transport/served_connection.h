// The server's end of one connection: a hello, then calls that are answered as they end.
//
// What the calls of a connection hold is bounded, in number and in bytes, until their answers have
// left, and one volume gets its share of that: disks which hang do not hold up the server's others,
// nor its pings and its status. Of the requests those beyond are answered `overloaded`; only the
// next steps of fragments wait a little, for which callers keep room (call_connection.h). Calls
// whose answers may be long wait in line until there is room for them. A peer that takes no answer
// for long is cut off.
// Thread-safety: lives on one executor.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/log_budget.h"
#include "penstock/memory_budget.h"
#include "penstock/repeat_budget.h"
#include "penstock/runtime.h"
#include "penstock/volume_client.h"
#include "server/transport/call_connection.h"
#include "server/transport/call_counters.h"
#include "server/transport/call_dispatch.h"
#include "server/transport/call_kinds.h"
#include "server/transport/call_room.h"
#include "server/transport/hello.h"
#include "server/transport/served_call.h"
#include "server/transport/served_transfers.h"
#include "server/transport/tls_context.h"

namespace penstock {

// What was counted of the calls of all connections of one I/O thread. Thread-safety: any thread.
struct ServedCounters {
  static constexpr int kCallLinesPerSecond = 50;
  // By PeerRole.
  CallCounters& of(PeerRole role) {
    return of_role[static_cast<std::size_t>(role) - static_cast<std::size_t>(PeerRole::gateway)];
  }
  std::array<CallCounters, 3> of_role;
  std::atomic<std::uint64_t> under_way{0};
  LogBudget lines{kCallLinesPerSecond};  // about single calls
};

// Of all connections of a server. Ownership: borrows; they outlive the connections. The functions
// are called from the threads of the connections.
struct ServiceParts {
  Clock& clock;
  Random& random;
  BufferPool& buffers;
  std::shared_ptr<const HelloTerms> terms;
  std::function<std::vector<std::shared_ptr<VolumeClient>>()> volumes;
  std::function<std::shared_ptr<VolumeClient>(VolumeId)> find;  // null: not here
  std::function<MapStamp()> stamp;                              // may be empty
  std::function<bool()> leaving;                                // may be empty
  std::shared_ptr<const TlsContext> tls = nullptr;              // null: plain connections
  std::function<std::string()> describe{};  // may be empty; at most limits::kReplyBytesMax
  // What other servers say of where their volumes are, and all of that. May be empty.
  std::function<void(std::vector<wire::Place>)> hear{};
  std::function<std::vector<wire::Place>()> places{};
  // Calls of volumes that are not open: each caller tries again and again.
  static constexpr std::size_t kClosedKeys = 256;
  std::shared_ptr<RepeatBudget> closed_lines = std::make_shared<RepeatBudget>(kClosedKeys);
  // Of the process: what calls hold counts there, on the account of their volume. Null: without.
  MemoryBudget* budget = nullptr;
};

class ServedConnection : public std::enable_shared_from_this<ServedConnection> {
 public:
  // `counters`: null: its own.
  ServedConnection(std::unique_ptr<ByteStream> stream, Executor executor,
                   std::shared_ptr<const ServiceParts> parts,
                   std::shared_ptr<ServedCounters> counters = nullptr);

  // Serves until the connection ends; then with why. A peer that ends it between two calls: ok.
  Task<> run();
  // Breaks it; run() ends soon.
  void close();
  // Of a server that stops: called again and again until the connection has ended. From the first
  // time on calls are refused as `unavailable` before they begin, but for the next steps of
  // fragments that are being written, and the peer has been told. Breaks it when nothing is under
  // way any more, and what the peer had sent before it knew has had time to come and be refused: of
  // what is lost with a connection nobody would know the outcome.
  void close_when_idle();
  // Calls whose answers have not left yet.
  std::size_t calls_under_way() const { return room_->calls(); }
  ServedCounters& counters() const { return *served_; }
  const std::optional<MetPeer>& peer() const { return peer_; }
  // Who it is, since when, and at which map as of its last call. From any thread; `peer`: null
  // until the hello has ended.
  struct Met {
    const MetPeer* peer = nullptr;
    BootTime since{};
    Epoch map_epoch;
  };
  Met met() const;
  // Is the peer known? From any thread.
  bool has_greeted() const { return has_met_.load(std::memory_order_acquire); }

 private:
  Task<> greet();
  Task<> read_calls();
  Task<> take_frame(const wire::Header& header);
  Task<> take_call(FrameHead head, CallRoom::Held held);
  Task<> take_at_once(const wire::Header& header);
  Task<> refuse_call(const ServedCall& call, Error why);
  Task<> refuse_unknown(const wire::Header& header);
  Task<CallRoom::Held> make_room(const wire::Header& header, std::size_t bytes);
  Task<MemoryBudget::Lease> take_memory(MemoryUse use, VolumeId volume, std::size_t bytes,
                                        BootTime until);
  Task<> make_answer_room(const DispatchedCall& call, CallRoom::Hold& held);
  Task<> take_discard(const wire::Header& header);
  Result<ServedCall> called(FrameHead& head) const;
  void begin(const ServedCall& call, std::string fields, Buffer payload, CallRoom::Held held);
  void begin_at_once(const ServedCall& call, std::string_view fields, CallRoom::Held held);
  void begin_step(const ServedCall& call, const std::string& fields, Buffer payload,
                  CallRoom::Held held);
  std::shared_ptr<VolumeClient> find(VolumeId id) const;
  Result<DispatchedAnswer> take_announcement(std::string_view fields) const;
  Result<> check_map(const wire::Header& call) const;
  wire::ServerStatus status() const;
  static Deadline deadline_of(const ServedCall& call);
  wire::Header reply_to(const wire::Header& call) const;
  void answer(const ServedCall& call, Result<DispatchedAnswer> answer, CallRoom::Held held);
  void note(const ServedCall& call, const Error* error, std::size_t bytes_out);
  bool is_closed(VolumeId id) const {
    const auto volume = find(id);
    return volume && volume->status().state != VolumeStatus::State::open;
  }
  void note_unsent(const ServedCall& call, const Error& why);
  static Awaitable<void> run_call(std::shared_ptr<ServedConnection> self, ServedCall served,
                                  DispatchedCall call, CallRoom::Held held);
  static Awaitable<void> run_sender(std::shared_ptr<ServedConnection> self);
  Awaitable<void> watch();
  static Awaitable<void> run_watch(std::shared_ptr<ServedConnection> self);

  const std::unique_ptr<ByteStream> stream_;
  const Executor executor_;
  const std::shared_ptr<const ServiceParts> parts_;
  const std::shared_ptr<ServedCounters> served_;
  CallCounters* counters_ = nullptr;  // of the peer's role, once it is known
  FrameReader reader_;
  FrameSender sender_;
  ServedTransfers transfers_;
  const std::shared_ptr<CallRoom> room_;
  std::optional<MetPeer> peer_;  // final, as the next, once `has_met_`
  BootTime met_at_{};
  std::atomic<bool> has_met_{false};
  std::atomic<std::uint64_t> map_epoch_{0};  // of the last call
  std::optional<BootTime> leaves_since_;     // this server stops
  std::optional<Error> send_error_;
  Wakeup ended_;
  bool closed_ = false;
};

}  // namespace penstock
