// What directed schedules of R13 play on: volumes that start by being admitted, each of a host of
// its own, and messages between them that a schedule holds back. Nothing happens by chance.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/sim_admission.h"
#include "tests/sim/sim_clusters.h"
#include "tests/sim/sim_volume.h"
#include "tests/sim/stage.h"
#include "tests/sim/stage_time.h"

namespace penstock::sim {

class AdmissionStage : public StageTime {
 public:
  // The volumes of a fresh cluster, all started and admitted.
  explicit AdmissionStage(SimClusters& clusters, std::uint32_t volumes = 3);
  ~AdmissionStage();

  SimVolume& volume(std::size_t index) { return *volumes_[index]; }
  const ClusterMap& map() const { return *cluster_.map; }
  // What the admission of `owner` says to `peer`, and hears of it.
  Wire& wire(std::size_t owner, std::size_t peer);
  // A fresh volume that no map names.
  std::size_t add_volume(const MapVolume& entry);

  // Pre: it is down.
  void start(std::size_t index);
  // The same, and it has been admitted; all that are there have noted that.
  void start_whole(std::size_t index);
  void kill(std::size_t index);
  // Those that keep the key of this stage, then the others.
  std::vector<std::size_t> by_key() const;
  // The state of its disk while it is down.
  using Copy = std::shared_ptr<const FakeDisk::Snapshot>;
  Copy copy(std::size_t index) { return volume(index).disk().snapshot(); }
  // Pre: it is down.
  void put_back(std::size_t index, const Copy& copy) { volume(index).disk().restore(*copy); }
  bool serves(std::size_t index) const;
  // Those of a map that can be reached adopt it.
  void install(const std::shared_ptr<const ClusterMap>& map, const std::vector<std::size_t>& at);

  // Both volumes accept a value for the key of this stage, under a round of `map`: acknowledged.
  bool write_at(const ClusterMap& map, std::size_t one, std::size_t other);
  // It answers rounds of `map`, and says that it has nothing. Pre: written before.
  bool misses(const ClusterMap& map, std::size_t index);

  using StageTime::start;

 private:
  NetworkFaults faults_;
  SimRandom random_{1};
  const SimCluster& cluster_;
  std::vector<std::shared_ptr<SimVolume>> volumes_;
  std::vector<std::unique_ptr<SimAdmission>> admissions_;  // of those that run
  std::map<std::pair<std::size_t, std::size_t>, std::shared_ptr<Wire>> wires_;
};

}  // namespace penstock::sim
