// `penstock ring status` and `restore` of a cluster.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "gateway/map_text.h"
#include "gateway/process/cluster_commands.h"
#include "gateway/process/cluster_findings.h"
#include "penstock/hex_id.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

constexpr Duration kChangePatience = std::chrono::seconds(30);

Json map_json(const ClusterMap* map) {
  if (map == nullptr) return nullptr;
  return Json{{"epoch", map->epoch.value},
              {"digest", hex_encode(std::as_bytes(std::span(map->digest)))}};
}

std::string map_name(const ClusterMap& map) {
  return "epoch " + std::to_string(map.epoch.value) + " (" + digest_text(map) + ")";
}

std::string volume_state(const ClusterLook& look, const MapVolume& entry) {
  const HeldMap* held = held_by(look, entry.id);
  if (!held || !held->answered) {
    const DescribedVolume* told = look.volume(entry.id);  // its server may
    const bool closed = told && told->status.state != VolumeStatus::State::open;
    return closed ? std::string(state_name(told->status.state)) : "does not answer";
  }
  return held->map ? map_name(*held->map) : "holds no map";
}

std::string status_json(const ClusterLook& look, const std::string& source,
                        const std::vector<Finding>& findings) {
  const MapLook& maps = look.maps;
  Json json{{"ok", !is_trouble(findings)},
            {"source",
             {{"name", source},
              {"answers", maps.has_source},
              {"error", maps.source_error},
              {"unreadable", maps.head.unreadable},
              {"map", map_json(maps.head.map.get())}}},
            {"follow", map_json(maps.verdict.follow.get())},
            {"trouble", to_string(maps.verdict.trouble)},
            {"volumes", Json::array()},
            {"findings", Json::array()}};
  if (maps.verdict.follow) {
    for (const MapVolume& entry : maps.verdict.follow->volumes) {
      const HeldMap* held = held_by(look, entry.id);
      json["volumes"].push_back({{"name", entry.name},
                                 {"id", hex_id(entry.id.value)},
                                 {"address", look.address_of(entry)},
                                 {"answers", held && held->answered},
                                 {"map", map_json(held ? held->map.get() : nullptr)}});
    }
  }
  for (const Finding& finding : findings) {
    json["findings"].push_back(
        {{"what", finding.what}, {"volume", finding.volume}, {"meaning", finding.meaning}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string status_text(const ClusterLook& look, const std::string& source,
                        const std::vector<Finding>& findings) {
  const MapLook& maps = look.maps;
  std::string text;
  if (!source.empty()) {
    text += "source   " + source + ": ";
    const std::string none = maps.head.unreadable.empty() ? "empty" : "what it holds is no map";
    const std::string head = maps.head.map ? map_name(*maps.head.map) : none;
    text += maps.has_source ? head : "does not answer";
    text += "\n";
  }
  const auto follow = maps.verdict.follow;
  text += "follows  " + (follow ? map_name(*follow) : std::string("no map")) + "\n";
  if (follow) {
    for (const MapVolume& entry : follow->volumes) {
      text += "  " + entry.name + "  " + look.address_of(entry) + "  " + volume_state(look, entry) +
              "\n";
    }
  }
  if (findings.empty()) return text + "all is well\n";
  text += "to be looked at:\n";
  for (const Finding& finding : findings) {
    text += "  " + (finding.volume.empty() ? "" : finding.volume + ": ") + finding.meaning + "\n";
  }
  return text;
}

bool anybody(const ClusterLook& look) {
  if (look.maps.has_source) return true;
  for (const FoundServer& server : look.servers) {
    if (server.trouble.empty()) return true;
  }
  return false;
}

Error nobody(const ClusterLook& look) {
  std::string why = look.maps.source_error;
  for (const FoundServer& server : look.servers) {
    why += (why.empty() ? "" : "; ") + server.trouble;
  }
  return fail(Errc::unavailable, "nobody answers: " + why);
}

Task<MapChanged> restore(AdminSession& session, bool& changes) {
  std::vector<std::string> none;
  CO_TRY(look, co_await session.look(std::move(none)));
  const auto follow = look.maps.verdict.follow;
  changes = look.maps.verdict.trouble != MapTrouble::none;
  std::vector<std::shared_ptr<VolumeClient>> clients;
  if (follow) clients = session.clients(*follow, look);
  const Deadline until = session.clock().boot() + kChangePatience;
  co_return co_await restore_map(*session.source(), std::move(look.maps), std::move(clients),
                                 session.clock(), until);
}

}  // namespace

int show_cluster_status(const RingLookArguments& arguments) {
  const auto session = AdminSession::open(arguments.reach, "penstock ring status");
  if (!session) return tell_failure_of(session.error());
  const auto look = (*session)->run((*session)->look({}));
  if (!look) return tell_failure_of(look.error());
  if (!anybody(*look)) return tell_failure_of(nobody(*look));
  MapSource* source = (*session)->source();
  const std::string name = source ? source->name() : "";
  const auto findings = find_trouble(*look, source != nullptr);
  const std::string text =
      arguments.json ? status_json(*look, name, findings) : status_text(*look, name, findings);
  std::fputs(text.c_str(), stdout);
  return is_trouble(findings) ? kExitTrouble : 0;
}

int restore_ring(const RingLookArguments& arguments) {
  const auto session = AdminSession::open(arguments.reach, "penstock ring restore");
  if (!session) return tell_failure_of(session.error());
  if (!(*session)->source()) {
    return tell_failure_of(fail(Errc::invalid, "say where the map is written back to: --map"));
  }
  bool changes = false;
  const auto restored = (*session)->run(restore(**session, changes));
  if (!restored) return tell_failure_of(restored.error());
  if (changes) {
    const auto told = tell_installed(*restored->map, restored->installed);
    if (!told) return tell_failure_of(told.error());
  }
  const std::string what = map_name(*restored->map) + " of " +
                           std::to_string(restored->map->volumes.size()) + " volumes";
  const std::string done = changes ? "Written to " + (*session)->source()->name() + ": " + what
                                   : "Nothing to restore: source and volumes hold " + what;
  std::fprintf(stdout, "%s.\n", done.c_str());
  return 0;
}

}  // namespace penstock
