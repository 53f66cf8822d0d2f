// R13: whether a volume that starts is the one that the other volumes of its map know, or an old
// copy of it; and that they learn of its start.
//
//   ask    enough peers have seen no later start of it, nor a failure in this boot of its machine
//   count  its start is counted at the volume itself, durably
//   note   enough peers have noted the start, durably
//   admit  from now on it answers registers and fragments; the other peers note its start, too
//
// Any peers that were enough to note a start meet any that are enough to be asked later, so one of
// these tells an old copy from the volume (admission_quorum() says where they are too few to meet).
// Which volumes are the peers, a map says. A copy may hold one that is long gone, so the maps of
// peers are heard, too; but one of them may be a map that never counted. So there must be enough
// peers of each map that may count: of the newest that counts for certain, because enough of its
// own volumes hold it or the process follows it, and of all newer ones that anybody holds. Where
// none counts for certain, of all of them.
// A start is counted behind the questions: the count of a copy that is refused stays what it was.
// Thread-safety: one executor.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "penstock/runtime.h"
#include "penstock/volume_client.h"
#include "penstock/wakeup.h"
#include "placement/cluster_map.h"
#include "server/membership/admission_quorum.h"

namespace penstock {

// The volume that starts, as its process holds it.
class StartingVolume {
 public:
  virtual ~StartingVolume() = default;
  virtual VolumeId id() const = 0;
  virtual std::uint64_t start() const = 0;     // the number of this start
  virtual std::uint64_t map_hash() const = 0;  // of the map that it holds
  virtual std::string map() const = 0;         // its text; empty: there is none
  virtual bool waits() const = 0;              // to be admitted, or again
  virtual Task<> count_start() = 0;            // once; durable
  virtual void wait_for(std::string why) = 0;
  virtual void admit(bool member) = 0;  // false: no map names it, and nobody was asked
  virtual void refuse(std::string why) = 0;
};

// Ownership: shared parts, but for the clock, which outlives the admission's coroutines.
struct AdmissionParts {
  Clock& clock;
  std::shared_ptr<StartingVolume> volume;
  std::string boot_id;  // of this boot of the machine; empty: unknown
  // The client of a peer; null: it cannot be reached now.
  std::function<std::shared_ptr<VolumeClient>(const MapVolume&)> connect;
  // All volumes of the map are this process's: nobody comes later, so whoever is there is enough.
  bool alone = false;
  std::shared_ptr<const ClusterMap> map = nullptr;  // that the process knows; null: none
  std::string process = {};  // random, of this process: noted with its start; empty: none
  // The map that the process follows, which counts (map_follower.h); null: none yet. While the
  // volume waits it takes no map itself, and few of those that hold the newest may be there. Empty:
  // the process follows none. Any thread's.
  std::function<std::shared_ptr<const ClusterMap>()> followed = {};
};

class StartAdmission {
 public:
  explicit StartAdmission(AdmissionParts parts);

  // Until it is admitted or refused. Errors: unavailable - refused, and why; shutting_down.
  Task<> settle();
  // The same, and then goes on until stop(): tells peers that come later, and asks again when the
  // volume gets its first map.
  Awaitable<void> run();
  // A failure that was told before is noted still, by those that answer within limits::kNoProgress.
  void stop();
  // The volume has failed: its peers note that, as soon as each can.
  void tell_failure();
  bool is_admitted() const { return admitted_; }
  std::size_t maps_kept() const { return maps_.size(); }  // for tests

 private:
  struct Heard {
    NoteReply starts;
    NoteReply failure;
    SharedBytes map;  // null: the one that is known
  };
  struct Peer {
    bool asked = false;     // and says nothing against it
    bool started = false;   // has noted the start
    bool failed = false;    // has noted the failure
    bool disputes = false;  // has noted another start than this one, which is admitted
    std::uint64_t map = 0;  // hash of the one that it held when it was asked
  };
  // A map that the volume or a peer holds.
  struct Known {
    std::uint64_t hash = 0;
    ClusterMap map;
    AdmissionQuorum quorum;  // nobody, where the map does not name the volume
    // More than enough are waited for until then: since enough were first there. Before: null.
    std::optional<BootTime> patient_until = {};
  };
  using MayCount = std::vector<const Known*>;
  static Task<Heard> ask(std::shared_ptr<VolumeClient> peer, VolumeId id, std::uint64_t map,
                         Deadline deadline);
  static Task<> tell(std::shared_ptr<VolumeClient> peer, std::string name, std::string bytes,
                     Deadline deadline);
  Awaitable<void> step();
  Awaitable<void> admit_member();
  Awaitable<void> ask_peers();
  Awaitable<void> tell_peers(std::string name, std::string bytes, bool Peer::*told);
  void judge(const MapVolume& peer, const Heard& heard);
  void refuse(std::string why);
  void judge_told(VolumeId peer, const Result<>& answer, bool Peer::*told);
  std::string own_note() const;
  void take_map(const std::string& text);
  void take_own_map();
  void take_followed_map();
  void forget_maps();
  // The maps whose peers must be enough, newest first. Valid while no map is taken.
  MayCount may_count() const;
  bool counts(const Known& known) const;
  bool wants_again(const Peer& peer, const MayCount& maps) const;
  // Of all those maps, each once.
  std::vector<MapVolume> peers() const;
  // What those weigh of whom `what` is true, or who are among `also`.
  std::uint64_t weight(const Known& known, bool Peer::*what, const std::set<VolumeId>& also) const;
  bool is_enough(const Known& known, std::uint64_t weight) const;
  void begin_patience();
  bool is_majority(const MayCount& maps, bool Peer::*what, const std::set<VolumeId>& also) const;
  bool reached(bool Peer::*what) const;
  bool is_settled() const { return refused_ || (admitted_ && !parts_.volume->waits()); }
  bool is_named() const;
  bool is_all_told() const;
  Duration pause() const;
  std::string waiting_text(bool Peer::*what, const char* for_what) const;

  const AdmissionParts parts_;
  std::map<std::uint64_t, std::unique_ptr<Known>> maps_;  // by hash; null: no map
  std::shared_ptr<const ClusterMap> followed_;            // at the last look
  std::uint64_t followed_hash_ = 0;
  std::uint64_t own_hash_ = 0;
  bool own_names_ = false;       // the volume's own map names it
  bool own_unreadable_ = false;  // it is no map that this release knows
  std::map<VolumeId, Peer> peers_;
  bool counted_ = false;
  bool admitted_ = false;
  bool failed_ = false;
  bool stopping_ = false;
  std::optional<std::string> refused_;
  std::size_t rounds_ = 0;  // since the last change
  Wakeup wakeup_;
};

}  // namespace penstock
