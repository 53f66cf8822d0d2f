// Where the head of a cluster's map is kept: the one place in which a map is changed. Gateways and
// servers read it and wait for changes; whoever changes the map replaces it by comparing revisions.
// Beside the map a source may keep what servers announce of themselves, and who drives changes.
//
// A source is a directory, never the truth of an epoch: it may be away, and it may come back older,
// empty or forked. What the volumes hold decides then (server/membership/map_vote.h).
//
// Kinds: `etcd://HOST:PORT[,HOST:PORT…]/CLUSTER-ID`; `file:PATH` or PATH for a cluster whose map is
// changed by hand.
//
// Errors of all calls: unavailable - it cannot be reached, nothing was done; timeout - it was asked
// and has not answered in time, the outcome is unknown; corrupt - its answer makes no sense;
// invalid.
// Thread-safety: one executor, that of the first call; several calls may be under way on it. Every
// call ends by its deadline.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/runtime.h"
#include "placement/cluster_map.h"

namespace penstock {

// How long an announcement or the role of the driver lasts when it is not renewed.
inline constexpr std::chrono::seconds kLeaseOfSource{10};

// Names one state of the head. Opaque: only equality means something. Empty: nothing was there.
using MapRevision = std::string;

struct MapHead {
  std::shared_ptr<const ClusterMap> map;  // null: none yet, none any more, or one is unreadable
  MapRevision revision;                   // also of what is unreadable: it may be replaced
  std::string unreadable;  // why what is there is no map of this cluster; empty: it is one, or none
};

struct AnnouncedVolume {
  VolumeId id;
  std::uint64_t total_bytes = 0;
  auto operator<=>(const AnnouncedVolume&) const = default;
};
// What a server says of itself. Those of its volumes that the map does not name are candidates.
struct Announcement {
  std::string address;  // HOST:PORT at which others reach it
  std::string host;     // failure domains; empty: not said
  std::string zone;
  std::vector<AnnouncedVolume> volumes;
  bool operator==(const Announcement&) const = default;
};

class MapSource {
 public:
  virtual ~MapSource() = default;
  // For people: "etcd://127.0.0.1:2379/4a…" or "file:/etc/penstock/map.json".
  virtual std::string name() const = 0;

  // The newest map: every replace() that ended before this began is seen.
  virtual Task<MapHead> read(Deadline deadline) = 0;
  // Makes `map` the head, durably, if the head's revision is still `expected`. Returns the new
  // revision. Errors: busy - another was faster, read again; invalid - too large, or of another
  // cluster. After `timeout` it may be the head: read() tells.
  virtual Task<MapRevision> replace(std::shared_ptr<const ClusterMap> map, MapRevision expected,
                                    Deadline deadline) = 0;
  // Waits until the head has another revision than `seen`, and returns it. A change that came and
  // went between two calls may be missed, the newest head is not. Errors: timeout - it is the same
  // at the deadline; unavailable - nobody can tell.
  virtual Task<MapHead> wait_for_change(MapRevision seen, Deadline deadline) = 0;

  // ---- announcements. A file has none: announce() does nothing, announced() is empty.
  virtual bool keeps_announcements() const = 0;
  // Lasts for kLeaseOfSource; say it again at least every third of that. Of a server that says it
  // at another address, or after a restart, the newest counts.
  virtual Task<> announce(Announcement announcement, Deadline deadline) = 0;
  // In no particular order.
  virtual Task<std::vector<Announcement>> announced(Deadline deadline) = 0;

  // ---- the driver of changes. A hint, so that two do not disturb each other: what keeps maps from
  // forking is the comparison in replace().
  // Takes the role for kLeaseOfSource, or keeps it. `driver` is unique, e.g. "host pid".
  // Errors: busy - another has it; the context names it.
  virtual Task<> drive(std::string driver, Deadline deadline) = 0;
  // Gives the role back, if this source object has it.
  virtual Task<> resign(Deadline deadline) = 0;
};

// What a source needs of its process. Ownership: borrowed; they outlive the source.
struct MapSourceParts {
  Clock& clock;
  Random& random;
  ClusterId cluster;
};
// Connects to nothing yet. Errors: invalid - the text names no source, or one of another cluster.
Result<std::unique_ptr<MapSource>> open_map_source(std::string_view text, MapSourceParts parts);

}  // namespace penstock
