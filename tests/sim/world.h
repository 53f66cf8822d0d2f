// A whole simulated cluster under one seed: gateways, volumes, network, faults, clients; and the
// verdict.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/records/object_record.h"
#include "tests/sim/leftovers.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_clusters.h"
#include "tests/sim/sim_map_source.h"
#include "tests/sim/sim_server.h"
#include "tests/sim/sim_volume.h"
#include "tests/sim/world_plan.h"

namespace penstock::sim {

struct Verdict {
  std::vector<std::string> violations;
  std::string world;        // its kind and size
  std::uint64_t trace = 0;  // two runs of one seed have one trace
  std::uint64_t events = 0;
  std::size_t operations = 0;
  std::size_t unjudged = 0;  // keys
  SimMicros simulated = 0;
};

class World {
 public:
  World(std::uint64_t seed, SimClusters& clusters, const WorldOptions& options = {});
  ~World();
  Verdict run();

 private:
  void build();
  // `local`: the volumes whose background work it does.
  std::shared_ptr<SimGateway> add_gateway(std::vector<VolumeId> local);
  // One of those that clients ask.
  std::shared_ptr<SimGateway> pick_gateway();

  // ---- world_servers.cc: a cluster of processes
  void build_servers();
  std::shared_ptr<SimServer> add_server();
  std::shared_ptr<SimGateway> add_peer_gateway();
  SimServer& server_of(std::size_t volume);
  void start_server(SimServer& server);
  void restart_server(SimServer& server, SimMicros delay);
  void stop_server(SimServer& server, SimServer::End end);
  void stop_gently(SimServer& server);
  // Every server that is down, or has a volume that should serve and does not.
  void bring_back_servers();
  // Until all that wait for their peers (R13) have been admitted.
  void await_admissions();
  Place any_place();
  void cut_places(Place from, Place to);
  void break_off();
  void pause_gateway();

  // ---- world_faults.cc
  void schedule_faults();
  void strike(Fault fault);
  // A volume is to crash or to start then.
  void outage_after(SimMicros delay, std::function<void()> outage);
  void crash_volume(std::size_t index);
  void crash_at_change(std::size_t index);
  void crash_all();
  void restart_volume(std::size_t index, SimMicros delay);
  void kill_gateway();
  void replace_gateway(const std::shared_ptr<SimGateway>& victim);
  void cut_wire(const std::shared_ptr<SimGateway>& gateway, std::size_t index);
  void disk_error(std::size_t index);
  void disk_full(std::size_t index);
  void hang(std::size_t index);
  void damage(std::size_t index);
  // Of a server: its process ends with it, and another begins without it.
  void lose_volume(std::size_t index);
  void mend_volumes();
  void check_wiped(std::size_t index);
  void bring_old_copy(std::size_t index);
  void check_old_copy(const Volume& copy, const std::vector<std::shared_ptr<Volume>>& noted);
  // ---- world_copies.cc: the same where volumes admit each other
  void bring_old_copy_to_server(std::size_t index);
  void put_back_old_copy(const FakeDisk::Snapshot& old, std::uint64_t start);
  bool is_noted(std::size_t index, std::uint64_t start) const;
  // It must never be admitted.
  void check_put_back();
  // Starts each volume that is not lost and should be there.
  void bring_back_volumes();
  void heal();
  std::size_t any_volume() { return random_.below(volumes_.size()); }

  // ---- world_replacement.cc: a volume makes room for a new one (R12)
  using Map = std::shared_ptr<const ClusterMap>;
  static Task<> put_to_source(SimMapSource& source, std::shared_ptr<SimClock> clock, Map map);
  void schedule_replacement();
  void replace_volume();
  Awaitable<void> begin_replacement(MapVolume joining);
  void drive_replacement(std::shared_ptr<SimGateway> driver);
  bool is_replaced() const;
  // Waits until it is; the old volume is gone from then on. False: it cannot be, because of what
  // was lost besides: the new volume, or too much of a blob that was written when some were away.
  bool end_replacement();

  // ---- world_cleaning.cc: background work leaves nothing behind
  void set_clocks(Duration after);
  void clean_up();
  Awaitable<void> look_for_leftovers(bool& done);
  void stop_background();

  // ---- world_checks.cc: when all is quiet
  void check_rest();
  // No request, and no accept behind one, is under way at any gateway.
  bool at_rest() const;
  Awaitable<void> check_objects(bool& done);
  Awaitable<void> check_object(std::string key, std::shared_ptr<const Bucket> bucket);
  Awaitable<bool> check_fragments(std::string key, BlobRef blob);
  // Loses as many volumes more as the store must bear, if all objects can bear it.
  bool lose_the_rest();

  // Runs `step` of each client, until all have finished. False: one hangs.
  using Step = Awaitable<void> (SimClient::*)();
  using Clients = std::span<const std::shared_ptr<SimClient>>;
  bool run_clients(Step step, Clients clients, SimMicros limit);
  void make_clients();
  void load();
  void quiesce();
  void await_servers();  // those that are down are started again, and their volumes admitted

  SimTime time_;
  SimRandom random_;
  const WorldPlan plan_;
  const SimCluster cluster_;
  NetworkFaults faults_;
  bool faults_on_ = false;
  int outages_ = 0;          // still to come
  std::size_t losses_left_;  // volumes that may still be lost
  // The most of any blob, because volumes failed its upload or could not take part in it.
  std::size_t spares_missing_ = 0;
  ByteNetwork network_;  // of a cluster, as the next two
  std::vector<std::shared_ptr<SimServer>> servers_;
  std::map<const SimGateway*, Place> places_;
  std::vector<std::shared_ptr<SimVolume>> volumes_;
  std::vector<std::shared_ptr<SimGateway>>
      gateways_;  // dead ones stay: their last coroutines still end
  std::vector<std::shared_ptr<SimClient>> clients_;
  std::unique_ptr<SimMapSource> source_;  // of a cluster whose map changes
  std::shared_ptr<SimGateway> driver_;    // of the replacement; null before it
  std::size_t leaving_ = 0;               // the volume that makes room
  bool leaving_was_lost_ = false;
  std::size_t copy_ = 0;   // a volume that came back as an old copy, if copied_
  bool copied_ = false;    // a copy was made; there is one at most
  bool put_back_ = false;  // it lies where the volume was
  History history_;
  Leftovers left_;
  WallTime start_;
};

// Runs one seed.
Verdict run_seed(std::uint64_t seed, SimClusters& clusters, const WorldOptions& options = {});

}  // namespace penstock::sim
