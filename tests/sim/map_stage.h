// What schedules and worlds of the map's source play on: gateways, and a server for each volume,
// all of which follow a simulated source by the product's own MapFollower; and drivers that change
// the map by the product's own steps and die between two of them.
//
// Looked at all the time: no volume and no gateway goes back to a lower epoch or changes the map of
// an epoch; and, while the source kept its word, one epoch is one map everywhere.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/map_source/map_driver.h"
#include "server/map_source/map_follower.h"
#include "tests/sim/sim_map_source.h"
#include "tests/sim/stage.h"

namespace penstock::sim {

class MapStage : public Stage {
 public:
  MapStage(SimClusters& clusters, std::uint32_t volumes, int gateways);
  ~MapStage();

  SimMapSource& source() { return source_; }
  int gateways() const { return static_cast<int>(gateways_.size()); }
  using Map = std::shared_ptr<const ClusterMap>;
  Map map_of_gateway(int gateway) { return this->gateway(gateway).membership().map(); }
  Map map_of_volume(std::size_t volume);  // null: it is down, or has none

  // A server with its volume: the process dies; the next one begins with the map of its volume.
  void kill(std::size_t server);
  void start(std::size_t server);
  bool running(std::size_t server) { return volume(server).running(); }
  // A server with a fresh volume that no map names.
  std::size_t add_server(const MapVolume& entry);

  // Somebody who changes the map, asking one half of the source. A look is kept until it is used.
  MapLook look(std::size_t half = 0);
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  // Makes of the look the map of change number `change`, of which every later one knows, and
  // installs it at so many volumes; then the driver dies.
  static constexpr int kChangesMax = 19;
  Result<MapChanged> change(MapLook look, int change, std::size_t half = 0,
                            std::size_t reached = kAll);
  Result<MapChanged> change_to(MapLook look, ClusterMap next, std::size_t half = 0,
                               std::size_t reached = kAll);
  Result<MapChanged> restore(std::size_t half = 0);
  static bool knows_of(const ClusterMap& map, int change);
  // The map of a change, as nobody has put it to the source.
  static ClusterMap next_of(const ClusterMap& map, int change);

  // All that run are at one map, that of the source.
  bool agree();
  // A write by one gateway is read by all others.
  void expect_served(const char* when);

  using StageTime::start;

 private:
  // A process that follows.
  struct Followed {
    std::string name;
    bool is_volume = false;
    Map current;  // of a server
    std::shared_ptr<MapFollower> follower;
    Map seen;                // by watch()
    std::uint64_t hash = 0;  // of the text of what was seen
  };
  VolumeClients clients_of(const ClusterMap* map);
  MapSource& open_source(Clock& clock, std::size_t half);
  FollowerParts parts_of(std::size_t index, Clock& clock);
  void follow_with(Followed& process, FollowerParts parts);
  void add_follower_of(int gateway);
  void watch();
  void look_at(Followed& process, const Map& map);
  bool held_by_most(const ClusterMap& map);
  Clock& driver_clock() { return gateway(0).clock(); }

  SimMapSource source_;
  std::vector<std::unique_ptr<MapSource>> handles_;  // all that were opened
  std::vector<std::shared_ptr<Followed>> servers_;   // in the order of their volumes
  std::vector<std::shared_ptr<Followed>> gateways_;
  std::map<std::uint64_t, Map> maps_;  // by epoch
  int written_ = 0;
  const std::shared_ptr<bool> watching_ = std::make_shared<bool>(true);
};

}  // namespace penstock::sim
