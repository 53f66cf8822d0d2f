// A whole simulated cluster under one seed: gateways, volumes, network, faults, clients; and the
// verdict.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/sim_client.h"
#include "tests/sim/sim_clusters.h"
#include "tests/sim/sim_volume.h"

namespace penstock::sim {

struct Verdict {
  std::vector<std::string> violations;
  std::uint64_t trace = 0;  // two runs of one seed have one trace
  std::uint64_t events = 0;
  std::size_t operations = 0;
  SimMicros simulated = 0;
};

class World {
 public:
  World(std::uint64_t seed, SimClusters& clusters);
  ~World();
  Verdict run();

 private:
  void build(SimClusters& clusters);
  std::shared_ptr<SimGateway> add_gateway();
  std::shared_ptr<SimGateway> pick_gateway();
  void schedule_faults();
  void plan_fault();
  void crash_volume(std::size_t index);
  void restart_volume(std::size_t index, SimMicros delay);
  void kill_gateway();
  void cut_wire();
  void damage();
  void heal();
  bool run_until_finished(const std::vector<std::shared_ptr<SimClient>>& clients, SimMicros limit);
  Awaitable<void> make_bucket(bool& done);
  void final_checks(Verdict& verdict);

  std::uint64_t seed_;
  SimTime time_;
  SimRandom random_;
  NetworkFaults faults_;
  bool direct_ = false;  // gateway and volumes in one process
  bool faults_on_ = true;
  std::size_t losses_left_ = 0;  // volumes that may still be lost for good
  const SimCluster* cluster_ = nullptr;
  std::vector<std::shared_ptr<SimVolume>> volumes_;
  std::vector<std::shared_ptr<SimGateway>>
      gateways_;  // dead ones stay: their last coroutines still end
  History history_;
};

// Runs one seed.
Verdict run_seed(std::uint64_t seed, SimClusters& clusters);

}  // namespace penstock::sim
