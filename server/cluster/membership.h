// What a gateway or repairer knows of the cluster: the map, a client per volume, and which volumes
// it suspects. Thread-safety: all methods from any thread. The map is immutable and replaced as a
// whole.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "penstock/runtime.h"
#include "penstock/volume_client.h"
#include "placement/cluster_map.h"
#include "placement/ring.h"

namespace penstock {

class Membership {
 public:
  // `volumes`: a client for each volume of the map that this process can reach; the others count as
  // unavailable.
  Membership(std::shared_ptr<const ClusterMap> map, Ring ring,
             std::vector<std::shared_ptr<VolumeClient>> volumes, Clock& clock);
  ~Membership();

  std::shared_ptr<const ClusterMap> map() const;
  const Ring& ring() const;
  // Null if unknown. The client stays valid as long as the caller holds it.
  std::shared_ptr<VolumeClient> volume(VolumeId id) const;
  std::vector<std::shared_ptr<VolumeClient>> volumes() const;

  // Failure detector: two failures in a row, or one timeout of limits::kNoProgress, make a volume
  // suspect: skipped for fragments, still asked but not awaited for registers. Any success clears
  // it.
  void report(VolumeId id, bool success);
  void report_stalled(VolumeId id);
  bool suspect(VolumeId id) const;  // suspect, closed or unknown
  // A suspect that is due to be tried again (once each limits::kProbeEvery); true at most once per
  // interval.
  bool probe_due(VolumeId id);
  // Volumes that may take new fragments: open, not suspect, not full.
  std::vector<VolumeId> usable() const;
  // Volumes that may not; what Ring::volumes_for wants as `skip`.
  std::vector<VolumeId> unusable() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
