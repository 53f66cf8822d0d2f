// What one process of the store holds: the volumes that it opened on some disks, and a gateway over
// them. Everything runs in the virtual time of a SimTime, on one thread, whatever the disks are.
#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "placement/cluster_map.h"
#include "server/volume/volume.h"
#include "tests/sim/sim_clusters.h"
#include "tests/sim/sim_gateway.h"

namespace penstock::crash {

// Six volumes, 4+2, units so small that a few kB are inline, replicated and striped alike.
std::shared_ptr<const sim::SimCluster> make_crash_cluster(sim::SimRandom& random);
// Small logs, tables, segments and ballast, so that short loads fill and compact them.
VolumeOptions crash_volume_options();

using Pairs = std::vector<std::pair<std::string, std::string>>;
S3Request ask(std::string method, std::string bucket, std::string key, Pairs query = {},
              Pairs headers = {});

class Process {
 public:
  Process(sim::SimTime& time, std::uint64_t seed, std::shared_ptr<const sim::SimCluster> cluster);
  ~Process();

  // Makes `disk` the volume `index` of the map.
  Result<> format(std::size_t index, Disk& disk);
  // Of the machine, for the volumes opened from now on; empty: not known.
  void set_boot(std::string id) { boot_id_ = std::move(id); }
  // As Volume::open; what fails stays out.
  Result<> open(std::size_t index, std::unique_ptr<Disk> disk);
  // Tells the volumes their epochs and makes a gateway that reaches all but `left_out` and does
  // their background work. Again: the former gateway takes nothing more, and ends what it does.
  void serve(const std::set<std::size_t>& left_out = {});
  // Stops background work, lets everything that is under way end, then closes the volumes in order.
  void close();

  sim::SimGateway& gateway() { return *gateways_.back(); }
  // Null if it is not open.
  Volume* volume(std::size_t index) { return volumes_[index].get(); }
  // Runs one request against the gateway.
  Task<sim::SimGateway::Answer> call(S3Request request, std::string body);

 private:
  sim::SimTime& time_;
  std::shared_ptr<const sim::SimCluster> cluster_;
  sim::SimRandom random_;
  sim::SimClock clock_;
  std::string boot_id_;
  BufferPool buffers_;
  std::vector<std::shared_ptr<Volume>> volumes_;
  std::vector<std::unique_ptr<sim::SimGateway>> gateways_;  // the last one serves
};

}  // namespace penstock::crash
