// A fragment that is being written on a volume of another process: its pieces follow one another on
// one connection, limits::kFragmentWritesInFlight of them at a time, and with those of the volume's
// other fragments not more than its server has room for.
// Thread-safety: one executor, that of the connection; as FragmentWriter.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/volume_client.h"
#include "server/transport/call_connection.h"

namespace penstock {

struct RemoteTransfer {
  VolumeId volume;
  std::uint64_t id = 0;  // the request id of its write_fragment
};

class RemoteWriter final : public FragmentWriter {
 public:
  // Before its write_fragment is sent.
  RemoteWriter(std::shared_ptr<CallConnection> connection, RemoteTransfer transfer,
               Executor executor, Clock& clock);
  // Tells the server that nobody writes it any more, unless it was committed.
  ~RemoteWriter() override;

  Task<> append(Buffer data, std::vector<std::uint32_t> crcs, Deadline deadline) override;
  Task<> commit(Deadline deadline) override;
  void give_up() override;

 private:
  struct State;
  static Awaitable<void> send(std::shared_ptr<State> state, Call call, ByteLine::Held room);
  Task<> commit_once(Deadline deadline);
  Awaitable<void> wait_for_room(int in_flight_max, Deadline deadline);
  Call call_of(wire::Operation operation, std::string fields, Deadline deadline) const;
  void discard();

  const std::shared_ptr<State> state_;  // shared with the pieces in flight
  const RemoteTransfer transfer_;
  const Executor executor_;
  Clock& clock_;
  bool committed_ = false;
  bool discarded_ = false;
};

}  // namespace penstock
