#include "gateway/process/cluster_commands.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <set>
#include <thread>

#include "gateway/planned_host.h"
#include "gateway/process/admin_session.h"
#include "gateway/process/candidates.h"
#include "gateway/process/stack_options.h"
#include "penstock/hex_id.h"
#include "placement/map_change.h"
#include "server/transport/cluster_key.h"

namespace penstock {
namespace {

constexpr std::uint32_t kGroups = 256;
constexpr Duration kChangePatience = std::chrono::seconds(30);
constexpr std::chrono::milliseconds kSayAgain{100};

std::string policy_text(const LayoutPolicy& policy) {
  return std::to_string(policy.k) + "+" + std::to_string(policy.m);
}

std::string name_in(const ClusterMap& map, VolumeId id) {
  const MapVolume* entry = map.find(id);
  return entry ? entry->name : "a volume";
}

// One driver of changes at a time. Errors: busy - another changes the map.
Task<MapChanged> change(AdminSession& session, ClusterLook look, ClusterMap next) {
  const Deadline until = session.clock().boot() + kChangePatience;
  MapSource& source = *session.source();
  CO_CHECK(co_await source.drive(driver_name(), until));
  auto clients = session.clients(next, look);
  auto changed = co_await change_map(source, std::move(look.maps), std::move(next),
                                     std::move(clients), session.clock(), until);
  const auto resigned = co_await source.resign(session.clock().boot() + kChangePatience);
  if (!resigned) std::cerr << "penstock: " << resigned.error().context << "\n";
  co_return changed;
}

// The head as it is, once more at the volumes.
Task<MapChanged> install_head(AdminSession& session, const ClusterLook& look) {
  const auto head = look.maps.head.map;
  auto clients = session.clients(*head, look);
  const Deadline until = session.clock().boot() + kChangePatience;
  MapChanged changed{head, look.maps.head.revision, {}};
  CO_TRY(installed, co_await install_map(head, std::move(clients), session.clock(), until));
  changed.installed = std::move(installed);
  co_return changed;
}

Result<> needs_source(AdminSession& session) {
  if (session.source()) return {};
  return fail(Errc::invalid, "say where the cluster's map is kept: --map");
}

// Before the volumes are looked at: a source that is behind does not know all of the cluster's.
Result<> check_in_step(const MapVerdict& verdict) {
  if (forbids_change(verdict.trouble)) return fail(Errc::unavailable, verdict.meaning);
  return {};
}

// ---- make

// A first map that few volumes have taken yet has no majority. Any other head counts only beside
// what majorities hold, or it would take a newer map from the volumes that are there.
Result<> check_may_install(const MapLook& maps) {
  const MapVerdict& verdict = maps.verdict;
  const bool first = verdict.trouble == MapTrouble::no_majority && verdict.follow &&
                     verdict.follow->epoch == Epoch{1};
  if (first && !is_contradicted(*verdict.follow, maps.held)) return {};
  return check_in_step(verdict);
}

// What was asked for beyond the map that is there: `ring make` changes none.
Result<> check_as_asked(const ClusterLook& look, const RingMakeArguments& arguments) {
  const ClusterMap& map = *look.maps.head.map;
  const std::string there = "there is a map of epoch " + std::to_string(map.epoch.value) +
                            " already, of " + std::to_string(map.volumes.size()) +
                            " volumes and layout " + policy_text(map.policy);
  if (!arguments.layout.empty()) {
    TRY(asked, parse_layout(arguments.layout, map.failure_domains()));
    if (asked.k != map.policy.k || asked.m != map.policy.m) {
      return fail(Errc::invalid, there + ": it stays, " + arguments.layout + " was not made");
    }
  }
  for (const std::string& address : arguments.servers) {
    const FoundServer* server = look.server(address);
    const bool named =
        std::any_of(map.volumes.begin(), map.volumes.end(),
                    [&](const MapVolume& volume) { return volume.address == address; });
    if (server == nullptr || (!server->trouble.empty() && !named)) {
      return fail(Errc::unavailable,
                  there + "; " + (server ? server->trouble : address + " is silent"));
    }
    for (const VolumeId id : server->volumes) {
      if (map.find(id)) continue;
      return fail(Errc::invalid, there + ", which does not name volume " + hex_id(id.value) +
                                     " of server " + address +
                                     ": `penstock ring add` takes volumes in");
    }
  }
  return {};
}

Task<MapChanged> make(AdminSession& session, const RingMakeArguments& arguments) {
  CO_TRY(look, co_await session.look(arguments.servers));
  if (!look.maps.has_source) co_return fail(Errc::unavailable, look.maps.source_error);
  if (look.maps.head.map) {
    CO_CHECK(check_may_install(look.maps));
    CO_CHECK(check_as_asked(look, arguments));
    co_return co_await install_head(session, look);
  }
  if (look.maps.verdict.follow) {
    co_return fail(Errc::invalid,
                   "the volumes are named by a map already, which " + session.source()->name() +
                       " lacks; `ring make` takes fresh volumes only. `penstock ring restore` "
                       "writes that map back");
  }
  CO_TRY(volumes, fresh_volumes(look, arguments.servers));
  for (std::size_t i = 0; i < volumes.size(); ++i) volumes[i].name = "v" + std::to_string(i);
  ClusterMap first;
  first.volumes = volumes;
  std::optional<LayoutPolicy> policy;
  if (!arguments.layout.empty()) {
    CO_TRY(parsed, parse_layout(arguments.layout, first.failure_domains()));
    policy = parsed;
  }
  CO_TRY(map,
         make_map(session.cluster(), std::move(volumes), kGroups, policy ? &*policy : nullptr));
  co_return co_await change(session, std::move(look), std::move(map));
}

// ---- add

struct Added {
  MapChanged changed;
  std::set<VolumeId> fresh;  // that this command has put into the map
  MovedVolumes moved;
};

Task<Added> add(AdminSession& session, const RingMakeArguments& arguments) {
  CO_TRY(look, co_await session.look(arguments.servers));
  if (!look.maps.has_source) co_return fail(Errc::unavailable, look.maps.source_error);
  const auto follow = look.maps.verdict.follow;
  if (!look.maps.head.map || !follow) {
    co_return fail(Errc::invalid, session.source()->name() +
                                      " holds no map: `penstock ring make` " +
                                      "makes one, `penstock ring restore` writes a lost one back");
  }
  CO_CHECK(check_in_step(look.maps.verdict));
  CO_TRY(volumes, fresh_volumes(look, arguments.servers));
  Added added;
  added.moved = moved_volumes(look, *follow);
  if (volumes.empty() && added.moved.empty()) {
    CO_TRY(again, co_await install_head(session, look));
    added.changed = std::move(again);
    co_return added;
  }
  for (MapVolume& volume : volumes) {
    volume.weight = arguments.weight;
    added.fresh.insert(volume.id);
  }
  CO_TRY(next, add_volumes(*follow, std::move(volumes), added.moved));
  CO_TRY(changed, co_await change(session, std::move(look), std::move(next)));
  added.changed = std::move(changed);
  co_return added;
}

// Another command may change the map at the same time: before this one, which then looks again, or
// after it, so that the volumes take that newer map and not the one of this command. Either way it
// has succeeded when a majority holds the newest map, with the volumes in it. A volume that takes a
// map from the source just then answers that it is busy: it is asked again.
Result<Added> add_until_taken(AdminSession& session, const RingMakeArguments& arguments) {
  const BootTime until = session.clock().boot() + kChangePatience;
  Added all;
  while (true) {
    auto added = session.run(add(session, arguments));
    if (added) {
      all.fresh.insert(added->fresh.begin(), added->fresh.end());
      for (auto& [id, address] : added->moved) all.moved[id] = address;
      all.changed = std::move(added->changed);
    }
    const bool again =
        added ? !all.changed.installed.is_settled() : added.error().code == Errc::busy;
    if (!again || session.clock().boot() >= until) {
      if (added) return all;
      if (all.fresh.empty() && all.moved.empty()) return added.error();
      return fail(Errc::unavailable,
                  "the map is written, but whether the volumes take it is not "
                  "known: " +
                      added.error().context + "; say the same again");
    }
    std::this_thread::sleep_for(kSayAgain);
  }
}

void tell_added(const Added& added) {
  const ClusterMap& map = *added.changed.map;
  if (!added.fresh.empty()) {
    std::cout << "Epoch " << map.epoch.value << ": " << map.volumes.size() << " volumes, taken by "
              << added.changed.installed.adopted.size() << " of them. New:";
    for (const MapVolume& volume : map.volumes) {
      if (!added.fresh.contains(volume.id)) continue;
      std::cout << " " << volume.name << " (" << volume.address << ")";
    }
    std::cout << ". New data goes there, too; old data stays where it is.\n";
  }
  for (const auto& [id, address] : added.moved) {
    std::cout << "Moved: " << name_in(map, id) << " is served at " << address << " now\n";
  }
}

std::string hint_of(const Error& error) {
  if (error.code != Errc::busy) return {};
  return "; nothing was changed by this command: look with `penstock ring show`, then say it again";
}

}  // namespace

Result<> tell_installed(const ClusterMap& map, const Installed& installed) {
  for (const auto& [id, error] : installed.failed) {
    std::cerr << "penstock: " << name_in(map, id) << ": " << error.context << "\n";
  }
  if (installed.reached) return {};
  return fail(Errc::unavailable,
              "the map is written, but too few volumes have taken it: see above, then say the same "
              "again");
}

int tell_failure_of(const Error& error) {
  std::cerr << "penstock: " << error.context << hint_of(error) << "\n";
  return kExitFailed;
}

int make_key_file(const std::string& path) {
  SystemRandom random;
  const ClusterKey key = make_cluster_key(random);
  if (const auto written = write_cluster_key(path, key); !written) {
    return tell_failure_of(written.error());
  }
  std::cout << "Cluster " << cluster_text(key.cluster) << ": its key is in " << path
            << ". Give the file to each of its processes, and to nobody else.\n";
  return 0;
}

int make_ring(const RingMakeArguments& arguments) {
  const auto session = AdminSession::open(arguments.reach, "penstock ring make");
  if (!session) return tell_failure_of(session.error());
  if (const auto needs = needs_source(**session); !needs) return tell_failure_of(needs.error());
  auto made = (*session)->run(make(**session, arguments));
  // A volume that has the map from its source already serves a moment later, when others have
  // admitted it. To say it again installs the map that is there.
  const BootTime until = (*session)->clock().boot() + kChangePatience;
  while (made && !made->installed.is_settled() && (*session)->clock().boot() < until) {
    std::this_thread::sleep_for(kSayAgain);
    made = (*session)->run(make(**session, arguments));
  }
  if (!made) return tell_failure_of(made.error());
  const ClusterMap& map = *made->map;
  if (const auto told = tell_installed(map, made->installed); !told) {
    return tell_failure_of(told.error());
  }
  std::cout << "Map of " << map.volumes.size() << " volumes in " << (*session)->source()->name()
            << ", taken by " << made->installed.adopted.size() << " of them. Layout "
            << policy_text(map.policy) << ": any " << map.policy.losses_survived()
            << " may be lost.\n";
  return 0;
}

int add_to_ring(const RingMakeArguments& arguments) {
  const auto session = AdminSession::open(arguments.reach, "penstock ring add");
  if (!session) return tell_failure_of(session.error());
  if (const auto needs = needs_source(**session); !needs) return tell_failure_of(needs.error());
  const auto added = add_until_taken(**session, arguments);
  if (!added) return tell_failure_of(added.error());
  const MapChanged& changed = added->changed;
  if (const auto told = tell_installed(*changed.map, changed.installed); !told) {
    return tell_failure_of(told.error());
  }
  if (added->fresh.empty() && added->moved.empty()) {
    std::cout << "Nothing to add: the volumes are in the map (epoch " << changed.map->epoch.value
              << "), which " << changed.installed.adopted.size() << " volumes hold.\n";
    return 0;
  }
  tell_added(*added);
  return 0;
}

}  // namespace penstock
