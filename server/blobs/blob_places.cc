#include "server/blobs/blob_places.h"

#include <algorithm>
#include <set>

#include "server/blobs/blob_shape.h"

namespace penstock {
namespace {

// Too few volumes: are they full (the client should stop) or away (it should come again)?
Error too_few(const BlobContext& context, const Skipped& failed, Error error) {
  std::size_t full = 0;
  for (const auto& client : context.membership.volumes()) {
    const VolumeStatus status = client->status();
    // One that has a reason will be away, whatever room it has: its server stops.
    const bool has_no_room = status.full && status.reason.empty();
    if (status.state == VolumeStatus::State::open && has_no_room) ++full;
  }
  for (const auto& [volume, code] : failed) full += code == Errc::full ? 1 : 0;
  const std::uint32_t m = context.membership.map()->policy.m;
  if (full >= (m > 0 ? 2u : 1u)) error.code = Errc::full;
  return error;
}

bool hosts_are_domains(const ClusterMap& map) {
  std::set<std::string_view> hosts;
  for (const MapVolume& volume : map.volumes) {
    if (volume.successor.value == 0) hosts.insert(volume.host);
  }
  return hosts.size() >= kHostsAsDomains;
}

}  // namespace

Result<PlacedBlob> place_blob(const BlobContext& context, WriteId write_id,
                              std::uint64_t size_bytes, bool replicated, const Skipped& failed) {
  const auto map = context.membership.map();
  const LayoutPolicy& policy = map->policy;
  const auto volumes_without = [&](std::vector<VolumeId> skip) {
    for (const auto& [volume, code] : failed) skip.push_back(volume);
    return context.membership.ring().volumes_for(ring_hash(write_id), policy.k + policy.m,
                                                 std::max(policy.m, 1u), skip);
  };
  PlacedBlob placed;
  placed.volumes = volumes_without(context.membership.unusable());
  auto shape = choose_shape(policy, size_bytes, replicated, placed.volumes.size());
  if (!shape) {
    // Disks that stall together make all of their volumes suspect. An upload has time to wait.
    placed.volumes = volumes_without(context.membership.closed_or_full());
    shape = choose_shape(policy, size_bytes, replicated, placed.volumes.size());
  }
  if (!shape) return too_few(context, failed, std::move(shape).error());
  placed.volumes.resize(shape->slots());
  TRY(layout, Layout::make(*shape));
  placed.layout = layout;
  return placed;
}

std::optional<VolumeId> place_for_one_more(const BlobContext& context, const BlobRef& blob) {
  const auto map = context.membership.map();
  std::vector<VolumeId> skip = context.membership.unusable();
  for (const Location& location : blob.locations) skip.push_back(location.volume);
  const std::size_t all = map->volumes.size();
  const auto candidates =
      context.membership.ring().volumes_for(ring_hash(blob.write_id), all, all, skip);
  const bool by_host = hosts_are_domains(*map);
  for (const VolumeId id : candidates) {
    std::size_t on_host = 0;
    for (const Location& location : blob.locations) {
      const MapVolume* other = map->find(location.volume);
      const bool stays = other != nullptr && other->successor.value == 0;
      if (stays && other->host == map->find(id)->host) ++on_host;
    }
    if (!by_host || on_host < std::max<std::size_t>(blob.shape.m, 1)) return id;
  }
  return std::nullopt;
}

std::vector<std::uint32_t> misplaced_slots_of(const BlobContext& context, const BlobRef& blob) {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = 0; slot < blob.locations.size(); ++slot) {
    const VolumeId volume = blob.locations[slot].volume;
    if (context.membership.stays(volume)) continue;
    if (volume.value != 0 || place_for_one_more(context, blob)) slots.push_back(slot);
  }
  return slots;
}

bool is_open_volume(const Membership& membership, VolumeId id) {
  const auto client = membership.volume(id);
  return client != nullptr && client->status().state == VolumeStatus::State::open;
}

int spares_of(const Membership& membership, const BlobRef& blob) {
  const auto readable = std::count_if(
      blob.locations.begin(), blob.locations.end(),
      [&](const Location& location) { return is_open_volume(membership, location.volume); });
  return static_cast<int>(readable) - static_cast<int>(blob.shape.k);
}

}  // namespace penstock
