// What directed schedules play on: a cluster without faults, clocks that agree, gateways that are
// asked one thing after another, and links that can be cut or slowed down one by one.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/sim_client.h"
#include "tests/sim/sim_volume.h"
#include "tests/sim/stage_time.h"

namespace penstock::sim {

// The round of a register by a map.
Round round_of(const ClusterMap& map, const RegisterRef& ref);

// An object's register in a bucket that nobody has made, for calls to acceptors alone.
RegisterRef plain_object(const std::string& key);
// A new value for it where it is absent; `later` ones have later ids.
std::shared_ptr<AcceptRequest> plain_accept(const ClusterMap& map, const std::string& key,
                                            std::uint64_t counter, std::uint64_t later = 0);
std::shared_ptr<ReadRequest> plain_read(const ClusterMap& map, const std::string& key);

// What an object of no bytes is to its register.
RegisterValue empty_object();

// The volume that joins where one is replaced.
MapVolume joining_entry();

// What completes an upload of this part alone.
std::string one_part_manifest(const std::string& part);

// A prepare for the register of an accept, with its ballot so much later, or earlier.
std::shared_ptr<PrepareRequest> prepare_of(const AcceptRequest& accept, SimMicros later);

class Stage : public StageTime {
 public:
  Stage(SimClusters& clusters, std::uint32_t volumes, int gateways, SimMicros disk_delay = 10);
  ~Stage();

  using Pairs = std::vector<std::pair<std::string, std::string>>;
  // One request, to its end. Status 0: no answer came at all.
  SimGateway::Answer ask(int gateway, std::string method, std::string key, std::string body = {},
                         Pairs headers = {}, Pairs query = {});
  // The same begun only; done once the pointer is filled.
  using Later = std::shared_ptr<std::optional<SimGateway::Answer>>;
  Later begin(int gateway, std::string method, std::string key, std::string body = {},
              Pairs headers = {}, Pairs query = {});
  Deadline until() { return gateway(0).clock().boot() + limits::kOperationDeadline; }

  // Both ways between a gateway and a volume.
  void cut(int gateway, std::size_t volume, bool cut);
  SimGateway& gateway(int index) { return *gateways_[static_cast<std::size_t>(index)]; }
  int add_gateway();
  // No background work from now on: what lies at a minority stays there.
  void stop_background();
  // The number of a fresh volume, formatted and started, that the map may take in.
  std::size_t add_volume(const MapVolume& entry, SimVolumeOptions options = {});
  // A fresh volume in the place of `leaving`: the joint map is at a majority. Nullopt: it is not.
  std::optional<std::size_t> join_for(std::size_t leaving);
  // Every volume adopts a map; gateways learn of it by themselves.
  void adopt(const ClusterMap& map);
  // All of them, over the links of a gateway that is never cut.
  std::vector<std::shared_ptr<VolumeClient>> links();
  SimVolume& volume(std::size_t index) { return *volumes_[index]; }
  std::size_t volumes() const { return volumes_.size(); }
  const ClusterMap& map() const { return *cluster_.map; }
  // The volumes that hold the register of `key`, by index, in the order of its group.
  std::vector<std::size_t> replicas(const std::string& key);
  std::vector<std::size_t> replicas_of_register(const RegisterRef& ref);
  // What one volume has accepted for a key.
  Accepted row(std::size_t volume, const std::string& key);
  Accepted row_of(std::size_t volume, const RegisterRef& ref);
  RegisterRef object(const std::string& key);
  const Bucket& bucket() const { return *bucket_; }
  Round round_of(const RegisterRef& ref);
  // An accept for a register beside `ref`'s key, so far ahead of true time; without its value.
  AcceptRequest accept_of(const RegisterRef& ref, SimMicros ahead);
  // The same with a value: a new update of an absent key.
  std::shared_ptr<AcceptRequest> accept_of(const RegisterRef& ref, RegisterValue value,
                                           SimMicros ahead);
  // One volume alone accepts a value, as if its proposer had died behind it. True: it has.
  bool inject(std::size_t volume, const RegisterRef& ref, RegisterValue value, SimMicros ahead);
  // The gateways' reads of fragments of this volume are lost, those of registers are not.
  void hide_fragments(std::size_t volume, bool hidden);

 private:
  SimRandom random_{1};
  NetworkFaults network_;
  std::shared_ptr<const Bucket> bucket_;
  const SimCluster& cluster_;
  std::vector<std::shared_ptr<SimVolume>> volumes_;
  std::vector<std::shared_ptr<SimGateway>> gateways_;
};

}  // namespace penstock::sim
