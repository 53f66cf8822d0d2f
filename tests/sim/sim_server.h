// One server of the simulated cluster: a machine with some volumes, and the process on it: the
// product's own end of connections, and the work that a server does for its volumes.
//
// A process dies alone or with the machine's power. Its volumes, its connections and its work go
// with it, at once; the next one begins with none of them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/transport/served_connection.h"
#include "tests/sim/byte_network.h"
#include "tests/sim/sim_admission.h"
#include "tests/sim/sim_gateway.h"
#include "tests/sim/sim_peers.h"
#include "tests/sim/sim_volume.h"

namespace penstock::sim {

// Ownership: borrows what it refers to.
struct SimServerParts {
  SimTime& time;
  ByteNetwork& network;
  const SimCluster& cluster;
  std::uint64_t seed = 0;
  std::string address;
  std::uint32_t page_rows = RemovalOptions().page_rows;
  // Its volumes serve when their peers have admitted them (R13); else at once.
  bool admits = false;
  SimGatewayParts::ToSource to_source{};  // of its work
};

class SimServer {
 public:
  explicit SimServer(SimServerParts parts);
  ~SimServer();

  // Before it is started; or while it is down.
  void add(std::shared_ptr<SimVolume> volume) { volumes_.push_back(std::move(volume)); }
  void remove(VolumeId id);
  bool has(VolumeId id) const;
  const std::vector<std::shared_ptr<SimVolume>>& volumes() const { return volumes_; }
  // Of the machine: what is on it shares them.
  const std::shared_ptr<SimHost>& host() const { return host_; }
  Place place() const { return place_; }
  const std::string& address() const { return parts_.address; }

  // A new process: it opens the volumes that are not lost, tells of those that do not open, and
  // serves. Pre: none runs.
  using OnRefused = std::function<void(SimVolume& volume, const Error& error)>;
  void start(const OnRefused& on_refused);
  using End = NetworkProcess::End;
  void die(End end);
  // The process stops gently: it takes no more connections, and ends those that it has when nothing
  // is under way on them, or `grace` is over; then it goes. It may die meanwhile.
  void stop_gently(Duration grace);
  bool running() const { return process_ != nullptr; }
  // None of its volumes waits to be admitted, but for damaged ones, and one that has left the map.
  bool admitted(VolumeId gone) const;
  // Of the running process: its work, and what it says of its map. Pre: it runs.
  const std::shared_ptr<SimGateway>& work() const;
  std::size_t connections() const;

 private:
  struct Process;
  std::shared_ptr<const ServiceParts> service_parts(const std::shared_ptr<Process>& process);
  void begin_work(const std::shared_ptr<Process>& process);
  Awaitable<void> drain(std::shared_ptr<Process> process, Duration grace);
  void admit_volumes(Process& process, const SimGatewayParts::Connect& connect);
  static Awaitable<void> serve(std::shared_ptr<Process> process,
                               std::shared_ptr<ServedConnection> connection);
  std::shared_ptr<Volume> opened(VolumeId id) const;

  const SimServerParts parts_;
  const std::shared_ptr<SimHost> host_;
  const Place place_;
  std::vector<std::shared_ptr<SimVolume>> volumes_;
  std::shared_ptr<Process> process_;
  std::vector<std::shared_ptr<Process>> dead_;  // their last coroutines still end
};

}  // namespace penstock::sim
