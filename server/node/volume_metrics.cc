#include "server/node/volume_metrics.h"

namespace penstock {
namespace {

using Samples = std::vector<Metrics::Sample>;
constexpr auto kVolumeGauge = Metrics::Kind::gauge;

Samples count_states(const VolumeSet& volumes) {
  std::map<std::string, double> counts{
      {"open", 0}, {"closed", 0}, {"missing", 0}, {"full", 0}, {"stalled", 0}};
  for (const auto& volume : volumes.states()) {
    counts[std::string(state_name(volume.status.state))] += 1;
    if (volume.status.full) counts["full"] += 1;
    if (volume.stalled) counts["stalled"] += 1;
  }
  Samples samples;
  for (const auto& [state, count] : counts) {
    samples.push_back(Metrics::Sample{{{"state", state}}, count});
  }
  return samples;
}

// One sample a volume: what `value` says of a VolumeSet::VolumeState.
template <class Value>
Samples by_volume(const VolumeSet& volumes, Value value) {
  Samples samples;
  for (const auto& volume : volumes.states()) {
    samples.push_back(
        Metrics::Sample{{{"volume", volume.name}}, static_cast<double>(value(volume))});
  }
  return samples;
}
Samples by_volume(const VolumeSet& volumes, std::uint64_t VolumeStatus::*member) {
  return by_volume(volumes, [member](const auto& volume) { return volume.status.*member; });
}

bool is_open(const VolumeSet::VolumeState& volume) {
  return volume.status.state == VolumeStatus::State::open;
}
std::uint64_t damaged_reads(const VolumeSet::VolumeState& volume) { return volume.damaged_reads; }

std::vector<Metrics::HistogramSample> syncs_by_volume(const VolumeSet& volumes) {
  std::vector<Metrics::HistogramSample> samples;
  for (const auto& [name, counts] : volumes.sync_counts()) {
    samples.push_back(Metrics::HistogramSample{{{"volume", name}}, counts});
  }
  return samples;
}

}  // namespace

void add_collectors_of_volumes(Metrics& metrics, const VolumeSet& volumes) {
  metrics.add_collector(kVolumeGauge, "penstock_volumes", "Volumes of the cluster by state.",
                        [&volumes] { return count_states(volumes); });
  metrics.add_collector(kVolumeGauge, "penstock_volume_free_bytes", "Free space by volume.",
                        [&volumes] { return by_volume(volumes, &VolumeStatus::free_bytes); });
  metrics.add_collector(kVolumeGauge, "penstock_volume_total_bytes", "Size of the disk by volume.",
                        [&volumes] { return by_volume(volumes, &VolumeStatus::total_bytes); });
  metrics.add_collector(kVolumeGauge, "penstock_volume_open", "1 if the volume is open.",
                        [&volumes] { return by_volume(volumes, is_open); });
  metrics.add_collector(Metrics::Kind::counter, "penstock_volume_damaged_reads_total",
                        "Reads that found a fragment of the volume damaged, since its start.",
                        [&volumes] { return by_volume(volumes, damaged_reads); });
  metrics.add_histograms("penstock_volume_sync_seconds",
                         "How long syncs of files and directories took, by volume.",
                         [&volumes] { return syncs_by_volume(volumes); });
  metrics.add_collector(kVolumeGauge, "penstock_volume_fragment_bytes",
                        "Data in fragments by volume.",
                        [&volumes] { return by_volume(volumes, &VolumeStatus::fragment_bytes); });
}

}  // namespace penstock
