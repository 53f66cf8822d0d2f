// Listens for the connections of other processes and serves each on one of the I/O threads.
// Thread-safety: counts and peers() from any thread; all else from the thread of the first context,
// or before it runs.
#pragma once
#include <array>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/transport/served_connection.h"

namespace penstock {

class PeerServer {
 public:
  // Each context is run by one thread. Ownership: borrows the contexts; they, and what `parts`
  // borrows, outlive the coroutines on them.
  PeerServer(std::vector<boost::asio::io_context*> contexts,
             std::shared_ptr<const ServiceParts> parts,
             std::size_t connections_max = limits::kPeerConnectionsMax);
  ~PeerServer();  // accepts no more

  // `address`: a literal one; `port` 0: any free one. Errors: invalid - not an address, or another
  // one than loopback while peers prove nothing (ServiceParts); io - the port is taken, or may not
  // be had.
  Result<> listen(const std::string& address, std::uint16_t port);
  std::uint16_t port() const;
  std::size_t connection_count() const;
  // Of calls served, by PeerRole less one; and how many are under way.
  struct Counts {
    std::array<CallCounts, 3> of_role;
    std::uint64_t under_way = 0;
    std::uint64_t refused = 0;  // connections that ended before their peer was known
  };
  Counts counts() const;

  // Who is connected: one entry for each process, as it names itself, and address that it calls
  // from. At most kPeersTold.
  struct Peer {
    PeerRole role = PeerRole::gateway;
    std::string name;
    std::string address;       // an IP address
    Epoch map_epoch;           // the highest of its last calls; zero: it has none
    Duration connected_for{};  // the oldest connection
    std::size_t connections = 0;
  };
  static constexpr std::size_t kPeersTold = 1000;
  std::vector<Peer> peers() const;

  // Accepts no more, waits until no call is under way, at most `grace`, and ends the connections.
  Awaitable<void> stop(Duration grace);

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace penstock
