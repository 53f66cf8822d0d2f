#include "server/membership/cluster_state.h"

#include <algorithm>
#include <map>
#include <set>

#include "server/membership/writable.h"

namespace penstock {
namespace {

constexpr std::size_t kNamesMax = 12;  // of volumes in one line

std::string domain_of(const MapVolume& volume, bool hosts) {
  return hosts ? volume.host : volume.name;
}

// How many fragments of one blob may lie on the lost volumes: a domain gets no more of them than it
// must.
std::size_t fragments_lost_at_most(const ClusterMap& map,
                                   const std::vector<VolumeFinding>& findings) {
  const bool hosts = map.failure_domains() < map.volumes.size();
  std::map<std::string, std::size_t> lost;
  std::set<std::string> domains;
  for (const VolumeFinding& finding : findings) {
    const std::string domain = domain_of(*finding.entry, hosts);
    domains.insert(domain);
    if (!finding.serves()) ++lost[domain];
  }
  const std::size_t slots = map.policy.k + map.policy.m;
  const std::size_t share = (slots + domains.size() - 1) / std::max<std::size_t>(domains.size(), 1);
  std::size_t sum = 0;
  for (const auto& [domain, count] : lost) sum += std::min(count, share);
  return sum;
}

// How many more replicas each list of each group may lose, at least; negative: one has no majority.
long spare_replicas(const std::vector<VolumeId>& list, const std::set<VolumeId>& open) {
  const auto there =
      std::count_if(list.begin(), list.end(), [&open](VolumeId id) { return open.contains(id); });
  return static_cast<long>(there) - static_cast<long>(list.size() / 2 + 1);
}

std::string names_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesMax); ++i) {
    text.append(i == 0 ? "" : ", ").append(names[i]);
  }
  if (names.size() > kNamesMax) {
    text.append(" and ").append(std::to_string(names.size() - kNamesMax)).append(" more");
  }
  return text;
}

}  // namespace

std::vector<VolumeFinding> findings_of(const Membership& membership, const ClusterMap& map) {
  std::vector<VolumeFinding> findings;
  for (const MapVolume& entry : map.volumes) {
    VolumeFinding finding;
    finding.entry = &entry;
    const auto client = membership.volume(entry.id);
    if (client) finding.status = client->status();
    finding.suspect = membership.suspect(entry.id);
    finding.slow = membership.slow(entry.id);
    finding.apart = membership.is_apart(entry.id);
    findings.push_back(std::move(finding));
  }
  return findings;
}

ClusterState judge(const ClusterMap& map, const std::vector<VolumeFinding>& findings) {
  ClusterState state;
  std::set<VolumeId> open;
  std::size_t roomy = 0;
  for (const VolumeFinding& finding : findings) {
    const std::string name = finding.entry->address.empty()
                                 ? finding.entry->name
                                 : finding.entry->name + " " + finding.entry->address;
    if (!finding.serves()) {
      (finding.answers() ? state.apart : state.lost).push_back(name);
      continue;
    }
    open.insert(finding.entry->id);
    if (finding.slow) state.slow.push_back(name);
    if (finding.status.full) state.full.push_back(name);
    if (!finding.status.full) ++roomy;
  }
  long spare =
      static_cast<long>(map.policy.m) - static_cast<long>(fragments_lost_at_most(map, findings));
  for (const MapGroup& group : map.groups) {
    long of_group = spare_replicas(group.replicas, open);
    if (!group.joint.empty()) of_group = std::min(of_group, spare_replicas(group.joint, open));
    if (of_group < 0) ++state.groups_without_majority;
    state.changing = state.changing || !group.joint.empty();
    spare = std::min(spare, of_group);
  }
  state.volumes = findings.size();
  state.groups = map.groups.size();
  state.changing = state.changing || map.staying() < map.volumes.size();
  state.writable = is_writable(map, open, roomy);
  const bool all_serve = state.lost.empty() && state.apart.empty();
  const bool whole = all_serve && state.full.empty() && state.slow.empty() && !state.changing;
  if (!whole) state.level = ClusterState::Level::degraded;
  if (!state.writable || (!all_serve && spare <= 0)) {
    state.level = ClusterState::Level::critical;
  }
  return state;
}

std::string apart_lines(const std::vector<VolumeFinding>& findings) {
  std::string lines;
  for (const VolumeFinding& volume : findings) {
    if (!volume.answers() || !volume.apart) continue;
    lines += "apart: " + volume.entry->name + " " + volume.entry->address +
             " holds another map than this process follows\n";
  }
  return lines;
}

std::string_view level_name(ClusterState::Level level) {
  switch (level) {
    case ClusterState::Level::whole:
      return "whole";
    case ClusterState::Level::degraded:
      return "degraded";
    case ClusterState::Level::critical:
      return "critical";
  }
  return "?";
}

std::string state_lines(const ClusterState& state) {
  std::string text = state.writable ? "ready\n" : "not ready: too few volumes for writes\n";
  text += level_name(state.level);
  std::vector<std::string> reasons;
  if (!state.lost.empty()) {
    reasons.push_back(std::to_string(state.lost.size()) + " of " + std::to_string(state.volumes) +
                      " volumes do not answer (" + names_of(state.lost) + ")");
  }
  if (!state.apart.empty()) {
    reasons.push_back(std::to_string(state.apart.size()) + " volumes hold another map (" +
                      names_of(state.apart) + ")");
  }
  if (state.groups_without_majority > 0) {
    reasons.push_back(std::to_string(state.groups_without_majority) + " of " +
                      std::to_string(state.groups) + " register groups have no majority");
  }
  if (!state.full.empty()) {
    reasons.push_back(std::to_string(state.full.size()) + " volumes take no new data (" +
                      names_of(state.full) + ")");
  }
  if (!state.slow.empty()) {
    reasons.push_back(std::to_string(state.slow.size()) + " volumes are slow (" +
                      names_of(state.slow) + ")");
  }
  if (state.changing) reasons.emplace_back("the map is being changed");
  for (std::size_t i = 0; i < reasons.size(); ++i) text += (i == 0 ? ": " : "; ") + reasons[i];
  return text + "\n";
}

}  // namespace penstock
