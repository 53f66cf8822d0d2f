// What a gateway or repairer knows of the cluster: the map, a client per volume, and which volumes
// it suspects. Thread-safety: all methods from any thread. A map is immutable and replaced as a
// whole by a newer one.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "penstock/runtime.h"
#include "penstock/volume_client.h"
#include "placement/cluster_map.h"
#include "placement/ring.h"

namespace penstock {

class Membership {
 public:
  // How to reach a volume that a newer map names; null: not from here.
  using Connector = std::function<std::shared_ptr<VolumeClient>(const MapVolume&)>;

  // `volumes`: a client for each volume of the map that this process can reach; the others count as
  // unavailable.
  Membership(std::shared_ptr<const ClusterMap> map, std::shared_ptr<const Ring> ring,
             std::vector<std::shared_ptr<VolumeClient>> volumes, Clock& clock,
             Connector connect = nullptr);
  Membership(std::shared_ptr<const ClusterMap> map, Ring ring,
             std::vector<std::shared_ptr<VolumeClient>> volumes, Clock& clock,
             Connector connect = nullptr)
      : Membership(std::move(map), std::make_shared<const Ring>(std::move(ring)),
                   std::move(volumes), clock, std::move(connect)) {}
  ~Membership();

  // Takes a newer map of the same cluster, asking the connector for volumes that had no client yet;
  // an older map, or another cluster's, changes nothing. Rounds under way keep the map that they
  // began with (R12). False: it was not newer. Errors: invalid - no ring can be built of it.
  Result<bool> adopt(std::shared_ptr<const ClusterMap> map, SameEpoch other = SameEpoch::stays);

  std::shared_ptr<const ClusterMap> map() const;
  // Is this very object the map that holds now? Touches nothing that others write.
  bool is_current(const ClusterMap& map) const;
  // Valid until the caller's next await.
  const Ring& ring() const;
  // Null if unknown. The client stays valid as long as the caller holds it.
  std::shared_ptr<VolumeClient> volume(VolumeId id) const;
  std::vector<std::shared_ptr<VolumeClient>> volumes() const;
  // Of the volumes of another map: those that can be reached. For questions about maps; one that
  // the own map does not name takes part in nothing else.
  std::vector<std::shared_ptr<VolumeClient>> reach(const ClusterMap& map);
  // Is it a volume of the map that is there to stay? Others must not be named by new records.
  bool stays(VolumeId id) const;

  // Failure detector: two failures in a row, or one timeout of limits::kNoProgress, make a volume
  // suspect. It is skipped for fragments; register calls still ask it but do not wait for it. The
  // next success of a register call clears what was reported of its registers. Only an answer for
  // which the disk was written clears what was reported of its fragments: a disk that hangs answers
  // much else from memory for ever.
  void report(VolumeId id, bool success);  // of a register call or a scan
  // The same by an answer: an error that only a live volume gives is a success, and one that says
  // nothing of the volume is not reported.
  void report_answer(VolumeId id, std::optional<Errc> error);
  void report_fragment(VolumeId id, bool success);  // of a fragment; a success clears nothing
  void report_stalled(VolumeId id);                 // of a fragment
  void report_durable(VolumeId id);                 // a fragment was committed
  // So many bytes came from a volume, or were made durable there, and took so long. A volume that
  // is slow beside the others (slow_volumes.h) is suspect, too: not asked while others have the
  // bytes, and left out of new blobs. Whoever reads from it finds that it is well again.
  void report_transfer(VolumeId id, std::uint64_t bytes, Duration took);
  bool suspect(VolumeId id) const;  // suspect, slow, closed or unknown
  bool slow(VolumeId id) const;     // open, and suspect as slow alone
  // Volumes that hold another map of this map's epoch, or of a later one: they refuse rounds.
  void report_apart(const std::vector<VolumeId>& ids);
  bool is_apart(VolumeId id) const;
  // Slow, and may it be asked once more, beside others who have the same? True for one caller each
  // kSlowReadEvery.
  bool take_turn_to_read(VolumeId id);
  std::uint64_t suspicions(VolumeId id) const;  // how often it became suspect
  // A read found a fragment missing or corrupt there: it is counted, and makes nobody suspect.
  void report_damaged(VolumeId id);
  std::uint64_t damaged(VolumeId id) const;  // how many were reported
  // Ends the window in which volumes are compared, if it is due. Probes each suspect that is due
  // (once each limits::kProbeEvery, from when it became one; not what is only slow), on
  // `executor`, beside the caller. A success clears all reports. Called by whoever meets a suspect,
  // and by the process once a second.
  void probe_suspects(Executor executor);
  // Volumes that may take no new fragments: closed, suspect or full. Ring::volumes_for skips them.
  std::vector<VolumeId> unusable() const;
  // Only those that are closed or full: a suspect may be well again soon.
  std::vector<VolumeId> closed_or_full() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
