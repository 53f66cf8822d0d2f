// `penstock ring show` and `what-if`.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "gateway/map_text.h"
#include "gateway/planned_host.h"
#include "gateway/process/admin_session.h"
#include "gateway/process/candidates.h"
#include "gateway/process/cluster_commands.h"
#include "placement/map_change.h"

namespace penstock {
namespace {

constexpr std::uint32_t kGroups = 256;

// A map with what it means and the room that its volumes tell of.
struct Viewed {
  std::shared_ptr<const ClusterMap> map;
  std::map<VolumeId, std::uint64_t> room;
  std::set<VolumeId> lost;
  std::string advice;  // lines on what the map says wrongly
};

Result<MapView> view_of(const Viewed& viewed) {
  TRY(outlook, outlook_of(*viewed.map, viewed.lost));
  return MapView{*viewed.map, std::move(outlook), viewed.room};
}

std::map<VolumeId, std::uint64_t> room_of(const ClusterMap& map, const ClusterLook& look) {
  std::map<VolumeId, std::uint64_t> room;
  for (const MapVolume& entry : map.volumes) {
    const DescribedVolume* volume = look.volume(entry.id);
    if (volume && volume->status.state == VolumeStatus::State::open) {
      room[entry.id] = volume->status.free_bytes;
    }
  }
  return room;
}

Result<Viewed> view_cluster(const RingLookArguments& arguments, const char* command) {
  TRY(session, AdminSession::open(arguments.reach, command));
  TRY(look, session->run(session->look({})));
  Viewed viewed;
  viewed.map = look.maps.verdict.follow ? look.maps.verdict.follow : look.maps.head.map;
  if (viewed.map) {
    viewed.room = room_of(*viewed.map, look);
    for (const auto& [id, address] : moved_volumes(look, *viewed.map)) {
      const MapVolume& entry = *viewed.map->find(id);
      viewed.advice += entry.name + ": " + moved_text(entry, address) + "\n";
    }
    return viewed;
  }
  for (const FoundServer& server : look.servers) {
    if (server.trouble.empty()) {
      return fail(Errc::not_found, "there is no map yet: `penstock ring make` makes one");
    }
  }
  std::string why = look.maps.source_error;
  for (const FoundServer& server : look.servers) {
    why += (why.empty() ? "" : "; ") + server.trouble;
  }
  return fail(Errc::unavailable, why);
}

// ---- what-if

std::uint64_t mean_room(const std::map<VolumeId, std::uint64_t>& room) {
  if (room.empty()) return 0;
  double sum = 0;
  for (const auto& [id, bytes] : room) sum += static_cast<double>(bytes);
  return static_cast<std::uint64_t>(sum / static_cast<double>(room.size()));
}

// The volumes of all planned hosts. `room` gets theirs.
Result<std::vector<MapVolume>> plan(const ClusterMap& base, const std::vector<std::string>& add,
                                    std::map<VolumeId, std::uint64_t>& room) {
  const std::uint64_t usual = mean_room(room);
  ClusterMap grown = base;
  std::vector<MapVolume> joining;
  std::set<std::string> names;
  for (const std::string& text : add) {
    TRY(host, parse_planned_host(text));
    if (!names.insert(host.name).second) {
      return fail(Errc::invalid, "--add names " + host.name + " twice: volumes=N gives it more");
    }
    for (MapVolume& volume : planned_volumes(grown, host)) {
      const std::uint64_t bytes = host.size_bytes > 0 ? host.size_bytes : usual;
      if (bytes > 0) room[volume.id] = bytes;
      grown.volumes.push_back(volume);
      joining.push_back(std::move(volume));
    }
  }
  return joining;
}

Result<ClusterMap> new_cluster(std::vector<MapVolume> volumes, const std::string& layout) {
  if (volumes.empty()) return fail(Errc::invalid, "say what joins a new cluster: --add NAME");
  for (std::size_t i = 0; i < volumes.size(); ++i) volumes[i].name = "v" + std::to_string(i);
  std::optional<LayoutPolicy> policy;
  if (!layout.empty()) {
    ClusterMap domains;
    domains.volumes = volumes;
    TRY(parsed, parse_layout(layout, domains.failure_domains()));
    policy = parsed;
  }
  return make_map(ClusterId{1, 1}, std::move(volumes), kGroups, policy ? &*policy : nullptr);
}

Result<Viewed> viewed_then(const Viewed* now, const RingLookArguments& arguments) {
  Viewed then;
  if (now) then.room = now->room;
  const ClusterMap base = now ? *now->map : ClusterMap{};
  TRY(joining, plan(base, arguments.add, then.room));
  if (now && !arguments.layout.empty()) {
    return fail(Errc::invalid,
                "the layout of a cluster stays as it was made: --layout is for a "
                "new one, without --cluster, --map or --servers");
  }
  if (now && joining.empty()) {
    then.map = now->map;
  } else {
    auto made = now ? add_volumes(base, std::move(joining))
                    : new_cluster(std::move(joining), arguments.layout);
    if (!made) return made.error();
    then.map = std::make_shared<const ClusterMap>(std::move(*made));
  }
  for (const std::string& name : arguments.lose) {
    TRY(named, volumes_named(*then.map, name));
    then.lost.insert(named.begin(), named.end());
  }
  return then;
}

Result<std::string> compare(const RingLookArguments& arguments) {
  const ReachArguments& reach = arguments.reach;
  std::optional<Viewed> now;
  if (!reach.directory.empty() || !reach.map.empty() || !reach.servers.empty()) {
    TRY(viewed, view_cluster(arguments, "penstock ring what-if"));
    now = std::move(viewed);
  }
  TRY(then, viewed_then(now ? &*now : nullptr, arguments));
  TRY(then_view, view_of(then));
  if (!now) {
    return arguments.json ? compare_json(nullptr, then_view) : compare_text(nullptr, then_view);
  }
  TRY(now_view, view_of(*now));
  if (arguments.json) return compare_json(&now_view, then_view);
  return compare_text(&now_view, then_view) + now->advice;
}

Result<std::string> show(const RingLookArguments& arguments) {
  TRY(viewed, view_cluster(arguments, "penstock ring show"));
  TRY(view, view_of(viewed));
  return arguments.json ? show_json(view) : show_text(view);
}

int tell(const Result<std::string>& text) {
  if (!text) return tell_failure_of(text.error());
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace

int show_ring(const RingLookArguments& arguments) { return tell(show(arguments)); }

int show_what_if(const RingLookArguments& arguments) { return tell(compare(arguments)); }

}  // namespace penstock
