// A network of byte streams under a seed: what TCP does to two processes, as each of them sees it.
// Connecting takes time, fails or is refused; bytes come late, in pieces cut anywhere, never twice
// and never out of order; a connection breaks within a frame, one side may learn it long after the
// other, and what was under way then may still arrive, long after its sender has gone on.
// Thread-safety: none; lives in simulated time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/transport/byte_stream.h"
#include "tests/sim/sim_time.h"

namespace penstock::sim {

// What happens by chance.
struct StreamFaults {
  SimMicros delay_max = 500;  // one way, usually
  double slow = 0;            // of each piece: it was lost, and is sent again
  SimMicros slow_max = 300'000;
  double split = 0;      // of each send: it leaves in several pieces
  double crumbs = 0;     // of each receive: it gets a few bytes of what is there
  double breaks = 0;     // of each send: the connection breaks behind it
  double refuses = 0;    // of each dial
  double half_open = 0;  // of each side of a break: it hears of it late
  double late = 0;       // of each side of a break: what was under way to it arrives much later
  double flips = 0;      // of each piece: one of its bits
  SimMicros late_max = 20'000'000;
  std::int64_t bytes_per_ms = 0;  // of each connection, each way; 0: as many as there are
};

// A machine. Processes on it come and go.
using Place = std::size_t;

class ByteNetwork {
 public:
  ByteNetwork(SimTime& time, std::uint64_t seed);
  ~ByteNetwork();

  Place add_place();
  StreamFaults& faults();
  // Nothing arrives this way, until it may: then what was under way does.
  void cut(Place from, Place to, bool cut);
  // All that two machines have; each side hears of it, sooner or later.
  void break_between(Place one, Place other);
  // So much later, each way.
  void slow_down(Place one, Place other, SimMicros by);
  // Ends all cuts and slowness; whoever has not heard of a break does now.
  void heal();
  // The least that each connection lets stand before its sender waits.
  static constexpr std::size_t kWindowBytes = 256 * 1024;

  struct Core;

 private:
  const std::shared_ptr<Core> core_;
  friend class NetworkProcess;
};

// What one process has of the network.
class NetworkProcess {
 public:
  using Accept = std::function<void(std::unique_ptr<ByteStream>)>;
  NetworkProcess(ByteNetwork& network, Place place);
  ~NetworkProcess();

  // As dial_tcp(): unavailable - nobody listens there, or no answer in limits::kConnectTime.
  Task<std::unique_ptr<ByteStream>> dial(std::string address);
  // Takes the place of who listened there before.
  void listen(const std::string& address, Accept accept);

  // How a process ends. Killed: its kernel closes what it had. Without power: its peers hear of it
  // when they do.
  enum class End : std::uint8_t { killed, without_power };
  // Nothing that it does from now on leaves, nothing reaches it.
  void die(End end);
  bool alive() const;
  Place place() const;

  struct State;

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace penstock::sim
