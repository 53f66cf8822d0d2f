// The server's end of one connection: a hello, then calls that are answered as they end.
//
// What the calls of a connection hold is bounded, in number and in bytes, until their answers have
// left; at the bound nothing more is read, and the peer waits. One volume gets half of it at most:
// the calls beyond are answered `overloaded`, so that a disk which hangs does not hold up the
// server's others. A peer that takes no answer for long is cut off.
// Thread-safety: lives on one executor.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "penstock/runtime.h"
#include "penstock/volume_client.h"
#include "server/transport/call_connection.h"
#include "server/transport/call_dispatch.h"
#include "server/transport/call_room.h"
#include "server/transport/hello.h"
#include "server/transport/served_transfers.h"

namespace penstock {

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
};

class ServedConnection : public std::enable_shared_from_this<ServedConnection> {
 public:
  ServedConnection(std::unique_ptr<ByteStream> stream, Executor executor,
                   std::shared_ptr<const ServiceParts> parts);

  // Serves until the connection ends; then with why. A peer that ends it between two calls: ok.
  Task<> run();
  // Breaks it; run() ends soon.
  void close();
  // The same, unless calls are under way or a fragment is being written.
  void close_when_idle() {
    if (room_->calls() == 0 && transfers_.size() == 0) close();
  }
  // Calls whose answers have not left yet.
  std::size_t calls_under_way() const { return room_->calls(); }
  const std::optional<MetPeer>& peer() const { return peer_; }

 private:
  Task<> greet();
  Task<> read_calls();
  Task<> take_call(FrameHead head);
  void begin(FrameHead head, Buffer payload, CallRoom::Held held);
  void begin_step(const FrameHead& head, Buffer payload, CallRoom::Held held);
  Result<> check_map(const wire::Header& call) const;
  wire::ServerStatus status() const;
  Deadline deadline_of(const wire::Header& call) const;
  void answer(const wire::Header& call, Result<DispatchedAnswer> answer, CallRoom::Held held);
  static Awaitable<void> run_call(std::shared_ptr<ServedConnection> self, wire::Header header,
                                  DispatchedCall call, CallRoom::Held held);
  static Awaitable<void> run_sender(std::shared_ptr<ServedConnection> self);
  static Awaitable<void> run_watch(std::shared_ptr<ServedConnection> self);

  const std::unique_ptr<ByteStream> stream_;
  const Executor executor_;
  const std::shared_ptr<const ServiceParts> parts_;
  FrameReader reader_;
  FrameSender sender_;
  ServedTransfers transfers_;
  const std::shared_ptr<CallRoom> room_ = std::make_shared<CallRoom>();
  std::optional<MetPeer> peer_;
  Wakeup ended_;
  bool closed_ = false;
};

}  // namespace penstock
