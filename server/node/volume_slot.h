// The place of one volume in this process: of the map, or prepared to join it; open or not.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/log.h"
#include "placement/cluster_map.h"
#include "server/node/identity_check.h"
#include "server/volume/volume.h"

namespace penstock {

// Thread-safety: a start fills it and may refuse its volume; after that nothing changes but what
// VolumeSet::watch() remembers, which is that one thread's.
struct VolumeSlot {
  MapVolume entry;
  std::string path;                // empty: nobody knows
  std::shared_ptr<Volume> volume;  // null: missing or refused
  VolumeStatus refused;            // why it is null
  bool hung = false;               // so it is: a look at the directory may hang, too
  bool in_use = false;             // so it is: another process holds the directory

  // ---- of VolumeSet::watch()
  VolumeStatus::State last_state = VolumeStatus::State::open;
  bool was_full = false;
  std::shared_ptr<IdentityCheck> check;  // made by the first look
};
// Shared: who looks at a slot may do so while its volume retires.
using VolumeSlots = std::vector<std::shared_ptr<VolumeSlot>>;

// The status of a volume that is not there.
inline VolumeStatus refusal(VolumeStatus::State state, std::string reason) {
  VolumeStatus status;
  status.state = state;
  status.reason = std::move(reason);
  return status;
}

inline void tell_lost(const std::string& name, const VolumeStatus& status) {
  log_event(LogLevel::error, "volume_lost",
            {{"volume", name},
             {"state", std::string(state_name(status.state))},
             {"reason", status.reason}});
}

}  // namespace penstock
