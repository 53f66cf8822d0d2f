// How a cluster does, by what one process finds of its volumes: are writes possible, what is lost,
// and how much more may be. Pure. Thread-safety: any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/volume_client.h"
#include "placement/cluster_map.h"
#include "server/membership/membership.h"

namespace penstock {

// What a process finds of one volume of the map.
struct VolumeFinding {
  const MapVolume* entry = nullptr;
  VolumeStatus status;
  bool suspect = false;
  bool slow = false;   // it answers, but far later than others: suspect, and not lost
  bool apart = false;  // it holds another map
  bool answers() const { return status.state == VolumeStatus::State::open && (!suspect || slow); }
  bool serves() const { return answers() && !apart; }
};

// whole: nothing is lost or slow. degraded: something is, and a further volume (of clusters of
// three hosts and more: a host) may be lost. critical: none may be.
struct ClusterState {
  enum class Level : std::uint8_t { whole, degraded, critical };
  bool writable = false;  // all groups have their majority, and a blob finds volumes enough
  Level level = Level::whole;
  std::size_t volumes = 0;
  std::vector<std::string> lost;   // "v3 10.0.0.3:9200", by the map's order
  std::vector<std::string> apart;  // that answer, but not rounds under this map
  std::vector<std::string> full;
  std::vector<std::string> slow;
  std::size_t groups = 0;
  std::size_t groups_without_majority = 0;
  bool changing = false;  // a volume is being replaced, or groups get new lists
};

// `findings`: of each volume of the map, with entries of it.
ClusterState judge(const ClusterMap& map, const std::vector<VolumeFinding>& findings);
// By the statuses and suspicions of now.
std::vector<VolumeFinding> findings_of(const Membership& membership, const ClusterMap& map);

std::string_view level_name(ClusterState::Level level);
// For /readyz: "ready" or why not, then "whole", "degraded: …" or "critical: …" with what is wrong.
std::string state_lines(const ClusterState& state);
// For /readyz of a server, which says little else of the others: those that are apart, a line each.
std::string apart_lines(const std::vector<VolumeFinding>& findings);

}  // namespace penstock
