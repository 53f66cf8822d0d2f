#include "server/membership/admission_quorum.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

namespace penstock {
namespace {

// How many volumes the hosts of a map have, but for one host.
std::map<std::string, std::size_t> other_hosts(const ClusterMap& map, const std::string& host) {
  std::map<std::string, std::size_t> hosts;
  for (const MapVolume& volume : map.volumes) {
    if (volume.host != host) ++hosts[volume.host];
  }
  return hosts;
}

// The sum of the heaviest.
std::uint64_t heaviest(std::vector<std::uint64_t> domains, std::size_t number) {
  std::sort(domains.begin(), domains.end(), std::greater<>());
  domains.resize(std::min(domains.size(), number));
  return std::accumulate(domains.begin(), domains.end(), std::uint64_t{0});
}

}  // namespace

AdmissionQuorum admission_quorum(const ClusterMap& map, VolumeId id) {
  AdmissionQuorum quorum;
  const MapVolume* own = map.find(id);
  if (own == nullptr) return quorum;
  const auto hosts = other_hosts(map, own->host);
  const bool by_host = hosts.size() + 1 >= kHostsAsDomains;
  std::map<std::string, std::uint64_t> domains;
  for (const MapVolume& volume : map.volumes) {
    if (volume.id == id) continue;
    quorum.peers.push_back(volume);
    if (by_host && volume.host == own->host) continue;
    const std::uint64_t weight = AdmissionQuorum::kDomain / (by_host ? hosts.at(volume.host) : 1);
    quorum.weights[volume.id] = weight;
    domains[by_host ? volume.host : std::to_string(volume.id.value)] += weight;
  }
  if (quorum.weights.empty()) return quorum;
  std::vector<std::uint64_t> sizes;
  for (const auto& [name, weight] : domains) sizes.push_back(weight);
  const std::uint64_t total = heaviest(sizes, sizes.size());
  const std::uint64_t left = total - heaviest(sizes, map.policy.losses_survived());
  quorum.majority = total / 2 + 1;
  quorum.enough = std::max<std::uint64_t>(1, std::min(quorum.majority, left));
  return quorum;
}

}  // namespace penstock
