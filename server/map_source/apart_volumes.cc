#include "server/map_source/apart_volumes.h"

#include <algorithm>

#include "penstock/log.h"
#include "penstock/volume_note.h"

namespace penstock {
namespace {

std::string name_of(const ClusterMap& map, VolumeId id) {
  const MapVolume* const entry = map.find(id);
  if (entry == nullptr) return hex_name(id.value);
  return entry->address.empty() ? entry->name : entry->name + " " + entry->address;
}

}  // namespace

std::vector<VolumeId> ApartVolumes::look(BootTime now, const ClusterMap& own,
                                         const std::vector<HeldMap>& held) {
  std::vector<VolumeId> ids;
  for (const HeldMap& each : held) {
    // One that holds an older map takes the newer one by itself.
    const bool older = !each.map || each.map->epoch < own.epoch;
    if (!older && each.map->digest != own.digest) {
      ids.push_back(each.volume);
      find(now, own, each);
    } else if (each.answered) {
      lose(each.volume);
    }
  }
  // Of one that has left the map nobody tells any more.
  std::erase_if(found_, [&](const auto& found) {
    return std::ranges::none_of(held,
                                [&](const HeldMap& each) { return each.volume == found.first; });
  });
  return ids;
}

void ApartVolumes::find(BootTime now, const ClusterMap& own, const HeldMap& held) {
  Found& found = found_.try_emplace(held.volume, Found{now}).first->second;
  if (found.told || now < found.since + kLong) return;
  const auto left_out = lines_.take(now, hex_name(held.volume.value));
  if (!left_out) return;
  found.told = true;
  const bool same_epoch = held.map->epoch == own.epoch;
  log_event(LogLevel::error, "volume_apart",
            {{"volume", name_of(own, held.volume)},
             {"holds", std::to_string(held.map->epoch.value)},
             {"followed", std::to_string(own.epoch.value)},
             {"meaning", same_epoch ? "it holds another map of this epoch and answers no rounds; "
                                      "look at `penstock ring status`"
                                    : "it holds a later map, which this process does not follow; "
                                      "look at `penstock ring status`"},
             {*left_out > 0 ? "left_out" : "", std::to_string(*left_out)}});
}

void ApartVolumes::lose(VolumeId id) {
  const auto found = found_.find(id);
  if (found == found_.end()) return;
  if (found->second.told) {
    log_event(LogLevel::info, "volume_apart_over", {{"volume", hex_name(id.value)}});
  }
  found_.erase(found);
}

}  // namespace penstock
