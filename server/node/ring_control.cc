#include "server/node/ring_control.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "penstock/wait_on.h"
#include "server/membership/cluster_state.h"
#include "server/node/volume_notes.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string refusal_text(const std::string& why) {
  return text_of(Json{{"ok", false}, {"error", why}});
}

std::string field(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Json json_of(const VolumeSet::VolumeState& volume, const ClusterMap& map,
             const Membership& membership) {
  const MapVolume* entry = map.find(volume.id);
  const bool open = volume.status.state == VolumeStatus::State::open;
  const auto change = change_of(map);
  std::string role = entry == nullptr ? "prepared" : "member";
  if (change && change->leaving == volume.id) role = "leaving";
  if (change && change->joining == volume.id) role = "joining";
  return Json{{"id", hex_name(volume.id.value)},
              {"name", volume.name},
              {"path", volume.path},
              {"state", state_name(volume.status.state)},
              {"role", role},
              {"suspect", open && entry != nullptr && membership.suspect(volume.id)},
              {"slow", open && entry != nullptr && membership.slow(volume.id)},
              {"reason", volume.status.reason},
              {"full", volume.status.full},
              {"free_bytes", volume.status.free_bytes},
              {"fragments", volume.status.fragment_count}};
}

std::string same_path(const std::string& path) {
  std::error_code ignored;
  const auto canonical = std::filesystem::weakly_canonical(path, ignored);
  return ignored ? path : canonical.string();
}

}  // namespace

std::string RingControl::answer(const std::string& question) {
  const Json json = Json::parse(question, nullptr, false);
  if (!json.is_object()) return refusal_text("the question is not a JSON object");
  const std::string op = field(json, "op");
  if (op == "status") return tell_status();
  if (op != "replace") return refusal_text("unknown operation \"" + op + "\"");
  const auto done = replace(field(json, "volume"), field(json, "with"));
  return done ? text_of(Json{{"ok", true}}) : refusal_text(done.error().context);
}

bool RingControl::is_whole() const {
  if (change_of(*volumes_.map())) return false;
  for (const auto& volume : volumes_.states()) {
    if (volume.status.state != VolumeStatus::State::open) return false;
  }
  return replacement_.status().fragments_missing == 0;
}

std::string RingControl::line() const {
  const auto map = volumes_.map();
  const auto change = change_of(*map);
  if (!change) return is_whole() ? "whole\n" : "not whole\n";
  const auto now = replacement_.status();
  return "not whole: " + map->find(change->leaving)->name + " is being replaced by " +
         map->find(change->joining)->name + " (" + now.what + ", " + std::to_string(now.done) +
         " of " + std::to_string(now.total) + ")\n";
}

bool RingControl::takes_writes() const {
  const auto map = membership_.map();
  return judge(*map, findings_of(membership_, *map)).writable;
}

std::string RingControl::tell_status() const {
  const auto map = volumes_.map();
  const auto status = replacement_.status();
  Json json{{"ok", true}, {"whole", is_whole()}, {"writable", takes_writes()}};
  json["map_epoch"] = map->epoch.value;
  json["survives_losses"] = map->policy.losses_survived();
  json["volumes"] = Json::array();
  for (const auto& volume : volumes_.states()) {
    json["volumes"].push_back(json_of(volume, *map, membership_));
  }
  json["fragments_missing"] = status.fragments_missing;
  json["change"] = nullptr;
  if (const auto change = change_of(*map)) {
    const bool joint = change->phase == MapChange::Phase::joint;
    json["change"] = {{"leaving", map->find(change->leaving)->name},
                      {"joining", map->find(change->joining)->name},
                      {"phase", joint ? "joint" : "moving"},
                      {"what", status.what},
                      {"done", status.done},
                      {"total", status.total},
                      {"rate", status.rate},
                      {"trouble", status.trouble}};
  }
  return text_of(json);
}

Result<MapVolume> RingControl::find_volume(const std::string& which) const {
  const auto map = volumes_.map();
  std::string known;
  for (const auto& volume : volumes_.states()) {
    const MapVolume* entry = map->find(volume.id);
    if (entry == nullptr) continue;
    const bool meant = volume.name == which || hex_name(volume.id.value) == which ||
                       (!volume.path.empty() && volume.path == plain_path(which));
    if (meant) return *entry;
    known += " " + volume.name;
  }
  // By another path of its directory: only for this are disks looked at, and none that hangs.
  for (const auto& volume : volumes_.states()) {
    const MapVolume* entry = map->find(volume.id);
    if (entry == nullptr || volume.path.empty() || volume.stalled) continue;
    if (which.find('/') == std::string::npos) continue;
    if (same_path(volume.path) == same_path(which)) return *entry;
  }
  return fail(Errc::not_found, "no volume is called \"" + which + "\"; there are:" + known +
                                   ". Give a name, id or directory of `penstock ring status`.");
}

Result<> RingControl::replace(const std::string& which, const std::string& path) {
  if (which.empty() || path.empty()) return fail(Errc::invalid, "which volume, with what?");
  if (path.front() != '/') return fail(Errc::invalid, "the new directory wants an absolute path");
  if (const auto change = change_of(*volumes_.map())) {
    return fail(Errc::busy, "volume " + volumes_.map()->find(change->leaving)->name +
                                " is being replaced: wait for its end (penstock ring status)");
  }
  TRY(old, find_volume(which));
  if (!takes_writes()) {
    return fail(Errc::unavailable,
                "too few volumes answer to change the ring: bring volumes back first");
  }
  const std::string place = plain_path(path);
  CHECK_OK(new_volume_.check_room(place, old.id));
  TRY(prepared, new_volume_.prepare(place));
  auto begin = replacement_.begin(old.id, std::move(prepared.entry), std::move(prepared.client));
  return wait_on(io_.at(0), std::move(begin), "the begin of a replacement");
}

}  // namespace penstock
