#include "gateway/map_text.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "penstock/hex_id.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

template <class... Words>
std::string format(const char* how, const Words&... words) {
  std::array<char, 512> line{};
  std::snprintf(line.data(), line.size(), how, words...);
  return line.data();
}

std::string share_text(const MapView& view, VolumeId id) {
  const auto at = view.outlook.shares.find(id);
  if (view.map.find(id) == nullptr) return "-";
  return format("%.1f %%", at == view.outlook.shares.end() ? 0.0 : 100 * at->second);
}

std::string place_text(const MapVolume& volume) {
  std::string text = volume.address;
  if (volume.host != volume.address) text += (text.empty() ? "" : " on ") + volume.host;
  if (!volume.zone.empty()) text += ", zone " + volume.zone;
  return text;
}

std::string room_text(const MapView& view) {
  if (view.room.empty()) return "not known";
  return bytes_text(bytes_that_fit(view.outlook, view.room));
}

Json outlook_json(const MapView& view) {
  const MapOutlook& outlook = view.outlook;
  Json shares = Json::object();
  for (const auto& [id, share] : outlook.shares) shares[hex_id(id.value)] = share;
  Json json{{"failure_domains", outlook.domains},
            {"domain", outlook.hosts_are_domains ? "host" : "volume"},
            {"zones", outlook.zones},
            {"layout", {{"k", outlook.k}, {"m", outlook.m}}},
            {"writable", outlook.writable},
            {"losses_survived", outlook.losses_left},
            {"zone_survived", outlook.zone_survived},
            {"groups_without_majority", outlook.groups_without_majority},
            {"shares", std::move(shares)}};
  if (!view.room.empty()) json["room_bytes"] = bytes_that_fit(outlook, view.room);
  return json;
}

std::string row(const char* what, const std::string& now, const std::string& then) {
  return format("%-26s %-16s %s\n", what, now.c_str(), then.c_str());
}

std::string yes_no(bool yes) { return yes ? "yes" : "no"; }

}  // namespace

std::string digest_text(const ClusterMap& map) {
  return hex_encode(std::as_bytes(std::span(map.digest))).substr(0, 12);
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return format(unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
}

std::string domains_text(const MapOutlook& outlook) {
  return std::to_string(outlook.domains) + (outlook.hosts_are_domains ? " host" : " volume") +
         (outlook.domains == 1 ? "" : "s");
}

std::string layout_text(const MapOutlook& outlook) {
  if (outlook.k == 0) return "none";
  return std::to_string(outlook.k) + "+" + std::to_string(outlook.m);
}

std::string promise_text(const MapView& view) {
  const MapOutlook& outlook = view.outlook;
  std::string text = "Any " + std::to_string(outlook.losses_left) + " of the " +
                     domains_text(outlook) + " may be lost";
  if (outlook.losses_left == 0) text = "No further loss is survived for certain";
  if (outlook.zones < 2) return text + ".";
  text += outlook.zone_survived ? "; any one of the " : "; not a whole one of the ";
  text += std::to_string(outlook.zones) + " zones";
  return text + (outlook.zone_survived ? ", too." : ".");
}

std::string show_text(const MapView& view) {
  const ClusterMap& map = view.map;
  const LayoutPolicy& policy = map.policy;
  std::string text = format(
      "epoch %llu (%s): %zu volumes, %s, layout %u+%u, %u replicas of records\n",
      static_cast<unsigned long long>(map.epoch.value), digest_text(map).c_str(),
      map.volumes.size(), domains_text(view.outlook).c_str(), policy.k, policy.m, policy.replicas);
  for (const MapVolume& volume : map.volumes) {
    const std::string place = place_text(volume);
    text +=
        format("  %-8s %s  %8s of new data  %s", volume.name.c_str(),
               hex_id(volume.id.value).c_str(), share_text(view, volume.id).c_str(), place.c_str());
    if (volume.weight != 1) text += format("  weight %g", volume.weight);
    if (volume.successor.value != 0) text += "  is being replaced";
    text += "\n";
  }
  return text + promise_text(view) + "\n";
}

std::string show_json(const MapView& view) {
  Json json = Json::parse(view.map.to_json());
  json["digest"] = hex_encode(std::as_bytes(std::span(view.map.digest)));
  json["outlook"] = outlook_json(view);
  return json.dump(2) + "\n";
}

std::string compare_text(const MapView* now, const MapView& then) {
  const auto both = [&](const char* what, auto tell) {
    return row(what, now ? tell(*now) : std::string("-"), tell(then));
  };
  std::string text = row("", now ? "now" : "-", "then");
  text += both("volumes", [](const MapView& v) { return std::to_string(v.map.volumes.size()); });
  text += both("failure domains", [](const MapView& v) { return domains_text(v.outlook); });
  text += both("zones", [](const MapView& v) { return std::to_string(v.outlook.zones); });
  text += both("layout of new objects", [](const MapView& v) { return layout_text(v.outlook); });
  text += both("writes are possible", [](const MapView& v) { return yes_no(v.outlook.writable); });
  text += both("further losses survived",
               [](const MapView& v) { return std::to_string(v.outlook.losses_left); });
  text += both("a lost zone is survived",
               [](const MapView& v) { return yes_no(v.outlook.zone_survived); });
  text += both("room for large objects", room_text);
  text += "share of new data\n";
  for (const MapVolume& volume : then.map.volumes) {
    text += row(("  " + volume.name).c_str(), now ? share_text(*now, volume.id) : "-",
                share_text(then, volume.id) + "  " + place_text(volume));
  }
  return text + promise_text(then) + "\n";
}

std::string compare_json(const MapView* now, const MapView& then) {
  Json json{{"then", outlook_json(then)}};
  if (now) json["now"] = outlook_json(*now);
  return json.dump(2) + "\n";
}

}  // namespace penstock
