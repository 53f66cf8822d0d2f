#include "gateway/process/peer_metrics.h"

#include <string>
#include <utility>
#include <vector>

#include "server/membership/cluster_state.h"

namespace penstock {
namespace {

using Labels = Metrics::Labels;
using Sample = Metrics::Sample;
using Samples = std::vector<Sample>;
using HistogramSamples = std::vector<Metrics::HistogramSample>;
constexpr auto kGauge = Metrics::Kind::gauge;
constexpr auto kCounter = Metrics::Kind::counter;

double number(std::uint64_t count) { return static_cast<double>(count); }

Labels with(Labels labels, const char* name, std::string_view value) {
  labels.emplace_back(name, std::string(value));
  return labels;
}

// Operations that were never called are left out.
void add_calls(Samples& samples, const Labels& labels, const CallCounts& counts) {
  for (std::size_t i = 0; i < kOperations; ++i) {
    const auto name = wire::operation_name(static_cast<wire::Operation>(i));
    for (std::size_t k = 0; k < kCallOutcomeNames.size(); ++k) {
      if (counts.calls[i][k] == 0) continue;
      Labels all = with(with(labels, "op", name), "outcome", kCallOutcomeNames[k]);
      samples.push_back(Sample{std::move(all), number(counts.calls[i][k])});
    }
  }
}

void add_errors(Samples& samples, const Labels& labels, const CallCounts& counts) {
  for (std::size_t i = 0; i < kErrorCodes; ++i) {
    if (counts.errors[i] == 0) continue;
    const auto name = to_string(static_cast<Errc>(i));
    samples.push_back(Sample{with(labels, "code", name), number(counts.errors[i])});
  }
}

void add_durations(HistogramSamples& samples, const Labels& labels, const CallCounts& counts) {
  for (std::size_t i = 0; i < kCallKindNames.size(); ++i) {
    samples.push_back({with(labels, "kind", kCallKindNames[i]), counts.durations[i]});
  }
}

// ---- peers that are called

using PeerValue = double (*)(const RemoteServer&);
struct PeerFamily {
  Metrics::Kind kind;
  const char* name;
  const char* help;
  PeerValue value;
};
constexpr PeerFamily kPeerFamilies[] = {
    {kGauge, "penstock_peer_up", "1 if the server has answered for its volumes just now.",
     [](const RemoteServer& peer) { return peer.volumes() ? 1.0 : 0.0; }},
    {kGauge, "penstock_peer_leaving", "1 if the server has said that it stops.",
     [](const RemoteServer& peer) { return peer.leaves() ? 1.0 : 0.0; }},
    {kGauge, "penstock_peer_connections", "Open connections to the server, of all threads.",
     [](const RemoteServer& peer) { return number(peer.counts().connections); }},
    {kGauge, "penstock_peer_calls_under_way", "Calls that wait for an answer, or to be sent.",
     [](const RemoteServer& peer) { return number(peer.counts().calls.under_way); }},
    {kCounter, "penstock_peer_received_bytes_total", "Bytes of answers.",
     [](const RemoteServer& peer) { return number(peer.counts().calls.bytes_in); }},
    {kCounter, "penstock_peer_sent_bytes_total", "Bytes of calls.",
     [](const RemoteServer& peer) { return number(peer.counts().calls.bytes_out); }},
};

using Peers = std::vector<std::shared_ptr<RemoteServer>>;
Labels name_of(const RemoteServer& peer) { return {{"peer", peer.address()}}; }

Samples connects_of(const Peers& peers) {
  Samples samples;
  for (const auto& peer : peers) {
    const auto counts = peer->counts();
    samples.push_back({with(name_of(*peer), "outcome", "ok"), number(counts.connects)});
    samples.push_back({with(name_of(*peer), "outcome", "failed"), number(counts.connects_failed)});
  }
  return samples;
}

// ---- the map

using FindingValue = double (*)(const Membership&, const VolumeFinding&);
struct FindingFamily {
  Metrics::Kind kind;
  const char* name;
  const char* help;
  FindingValue value;
};
constexpr FindingFamily kFindingFamilies[] = {
    {kGauge, "penstock_cluster_volume_up", "1 if this process finds the volume open.",
     [](const Membership&, const VolumeFinding& volume) { return volume.serves() ? 1.0 : 0.0; }},
    {kGauge, "penstock_cluster_volume_suspect", "1 while the volume is skipped as late.",
     [](const Membership&, const VolumeFinding& volume) {
       const bool open = volume.status.state == VolumeStatus::State::open;
       return open && volume.suspect && !volume.slow ? 1.0 : 0.0;
     }},
    {kGauge, "penstock_cluster_volume_slow", "1 while the volume is skipped as slow.",
     [](const Membership&, const VolumeFinding& volume) { return volume.slow ? 1.0 : 0.0; }},
    {kGauge, "penstock_cluster_volume_apart",
     "1 while the volume answers, but holds another map than this process.",
     [](const Membership&, const VolumeFinding& volume) {
       return volume.answers() && volume.apart ? 1.0 : 0.0;
     }},
    {kCounter, "penstock_cluster_volume_suspicions_total", "How often it became late or failed.",
     [](const Membership& membership, const VolumeFinding& volume) {
       return number(membership.suspicions(volume.entry->id));
     }},
    {kCounter, "penstock_cluster_volume_damaged_fragments_total",
     "Fragments that a read found missing or corrupt, and rebuilt from others.",
     [](const Membership& membership, const VolumeFinding& volume) {
       return number(membership.damaged(volume.entry->id));
     }},
    {kGauge, "penstock_cluster_volume_full", "1 while the volume takes no new data.",
     [](const Membership&, const VolumeFinding& volume) { return volume.status.full ? 1.0 : 0.0; }},
};

using StateValue = double (*)(const ClusterMap&, const ClusterState&);
struct StateFamily {
  const char* name;
  const char* help;
  StateValue value;
};
constexpr StateFamily kStateFamilies[] = {
    {"penstock_cluster_writable", "1 while writes are possible for all register groups.",
     [](const ClusterMap&, const ClusterState& state) { return state.writable ? 1.0 : 0.0; }},
    {"penstock_cluster_volumes_lost", "Volumes of the map that do not answer.",
     [](const ClusterMap&, const ClusterState& state) { return number(state.lost.size()); }},
    {"penstock_cluster_groups_without_majority", "Register groups that cannot be read or written.",
     [](const ClusterMap&, const ClusterState& state) {
       return number(state.groups_without_majority);
     }},
    {"penstock_cluster_map_epoch", "Version of the map that this process is at.",
     [](const ClusterMap& map, const ClusterState&) { return number(map.epoch.value); }},
};

Samples levels_of(const ClusterState& state) {
  Samples samples;
  for (const auto level :
       {ClusterState::Level::whole, ClusterState::Level::degraded, ClusterState::Level::critical}) {
    samples.push_back(
        {{{"level", std::string(level_name(level))}}, level == state.level ? 1.0 : 0.0});
  }
  return samples;
}

}  // namespace

void add_collectors_of_peers(Metrics& metrics, const RemoteServers& peers) {
  for (const PeerFamily& family : kPeerFamilies) {
    metrics.add_collector(family.kind, family.name, family.help, [&peers, &family] {
      Samples samples;
      for (const auto& peer : peers.servers()) {
        samples.push_back({name_of(*peer), family.value(*peer)});
      }
      return samples;
    });
  }
  metrics.add_collector(kCounter, "penstock_peer_connects_total",
                        "Connections made to the server, also again; tries that failed.",
                        [&peers] { return connects_of(peers.servers()); });
  using Add = void (*)(Samples&, const Labels&, const CallCounts&);
  const auto add = [&metrics, &peers](const char* name, const char* help, Add add_peer) {
    metrics.add_collector(kCounter, name, help, [&peers, add_peer] {
      Samples samples;
      for (const auto& peer : peers.servers()) {
        add_peer(samples, name_of(*peer), peer->counts().calls);
      }
      return samples;
    });
  };
  add("penstock_peer_calls_total", "Calls to the server by operation and outcome.", add_calls);
  add("penstock_peer_errors_total", "Calls to the server that did not succeed, by code.",
      add_errors);
  metrics.add_histograms("penstock_peer_call_duration_seconds",
                         "From a call to its end, by what it is for.", [&peers] {
                           HistogramSamples samples;
                           for (const auto& peer : peers.servers()) {
                             add_durations(samples, name_of(*peer), peer->counts().calls);
                           }
                           return samples;
                         });
}

void add_collectors_of_served_calls(Metrics& metrics, const PeerServer& server) {
  using Add = void (*)(Samples&, const Labels&, const CallCounts&);
  const auto add = [&metrics, &server](const char* name, const char* help, Add add_role) {
    metrics.add_collector(kCounter, name, help, [&server, add_role] {
      Samples samples;
      const auto counts = server.counts();
      for (std::size_t i = 0; i < counts.of_role.size(); ++i) {
        const auto role = role_name(static_cast<PeerRole>(i + 1));
        add_role(samples, {{"role", std::string(role)}}, counts.of_role[i]);
      }
      return samples;
    });
  };
  add("penstock_served_calls_total", "Calls answered by operation and outcome.", add_calls);
  add("penstock_served_errors_total", "Calls answered with an error, by code.", add_errors);
  add("penstock_served_received_bytes_total", "Bytes of calls.",
      [](Samples& samples, const Labels& labels, const CallCounts& counts) {
        samples.push_back({labels, number(counts.bytes_in)});
      });
  add("penstock_served_sent_bytes_total", "Bytes of answers.",
      [](Samples& samples, const Labels& labels, const CallCounts& counts) {
        samples.push_back({labels, number(counts.bytes_out)});
      });
  const auto gauge = [&metrics, &server](Metrics::Kind kind, const char* name, const char* help,
                                         double (*value)(const PeerServer&)) {
    metrics.add_collector(kind, name, help, [&server, value] {
      return Samples{Sample{{}, value(server)}};
    });
  };
  gauge(kGauge, "penstock_served_connections", "Open connections of gateways and servers.",
        [](const PeerServer& of) { return number(of.connection_count()); });
  gauge(kGauge, "penstock_served_calls_under_way", "Calls whose answers have not left yet.",
        [](const PeerServer& of) { return number(of.counts().under_way); });
  gauge(kCounter, "penstock_served_refused_total",
        "Connections that ended before it was known who was there.",
        [](const PeerServer& of) { return number(of.counts().refused); });
  metrics.add_histograms(
      "penstock_served_call_duration_seconds",
      "From a call's frame to its answer, by what it is for.", [&server] {
        HistogramSamples samples;
        const auto counts = server.counts();
        for (std::size_t i = 0; i < counts.of_role.size(); ++i) {
          const auto role = role_name(static_cast<PeerRole>(i + 1));
          add_durations(samples, {{"role", std::string(role)}}, counts.of_role[i]);
        }
        return samples;
      });
}

void add_collectors_of_cluster(Metrics& metrics, std::function<const Membership*()> membership) {
  for (const FindingFamily& family : kFindingFamilies) {
    metrics.add_collector(family.kind, family.name, family.help, [membership, &family] {
      Samples samples;
      const Membership* now = membership();
      if (now == nullptr) return samples;
      const auto map = now->map();
      for (const VolumeFinding& volume : findings_of(*now, *map)) {
        Labels labels{{"volume", volume.entry->name}, {"peer", volume.entry->address}};
        samples.push_back({std::move(labels), family.value(*now, volume)});
      }
      return samples;
    });
  }
  for (const StateFamily& family : kStateFamilies) {
    metrics.add_collector(kGauge, family.name, family.help, [membership, &family] {
      const Membership* now = membership();
      if (now == nullptr) return Samples{};
      const auto map = now->map();
      return Samples{Sample{{}, family.value(*map, judge(*map, findings_of(*now, *map)))}};
    });
  }
  metrics.add_collector(kGauge, "penstock_cluster_level",
                        "How the cluster does, as this process finds it; one level is 1.",
                        [membership] {
                          const Membership* now = membership();
                          if (now == nullptr) return Samples{};
                          const auto map = now->map();
                          return levels_of(judge(*map, findings_of(*now, *map)));
                        });
}

}  // namespace penstock
