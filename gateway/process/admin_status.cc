// `penstock admin status`.
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "gateway/map_text.h"
#include "gateway/process/cluster_commands.h"
#include "gateway/process/cluster_findings.h"
#include "gateway/process/stack_options.h"
#include "penstock/hex_id.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::seconds kWatchEvery{2};
constexpr const char* kClearScreen = "\x1b[H\x1b[2J";

template <class... Words>
std::string format(const char* how, const Words&... words) {
  std::array<char, 512> line{};
  std::snprintf(line.data(), line.size(), how, words...);
  return line.data();
}

double seconds(Duration duration) { return static_cast<double>(duration.count()) * 1e-6; }

std::string since_text(Duration duration) {
  const double s = seconds(duration);
  if (s < 120) return format("%.0f s", s);
  return s < 7200 ? format("%.0f min", s / 60) : format("%.1f h", s / 3600);
}

std::string name_of(const ClusterLook& look, VolumeId id) {
  const auto& map = look.maps.verdict.follow;
  const MapVolume* entry = map ? map->find(id) : nullptr;
  if (entry) return entry->name;
  return id.value == 0 ? "-" : hex_id(id.value);
}

bool is_candidate(const ClusterLook& look, VolumeId id) {
  const auto& map = look.maps.verdict.follow;
  return id.value != 0 && (!map || !map->find(id));
}

std::string volume_line_of(const ClusterLook& look, const DescribedVolume& volume) {
  const VolumeStatus& status = volume.status;
  std::string line =
      format("    %-6s %-8s %s of %s free, %llu fragments  ", name_of(look, volume.id).c_str(),
             std::string(state_name(status.state)).c_str(), bytes_text(status.free_bytes).c_str(),
             bytes_text(status.total_bytes).c_str(),
             static_cast<unsigned long long>(status.fragment_count));
  line += volume.path;
  if (status.full) line += "  full";
  if (volume.damaged_reads > 0) {
    line += format("  %llu damaged reads", static_cast<unsigned long long>(volume.damaged_reads));
  }
  if (is_candidate(look, volume.id)) line += "  candidate: no map names it";
  if (!status.reason.empty()) line += "  (" + status.reason + ")";
  return line + "\n";
}

std::string job_line(const DescribedJob& job) {
  const auto done = static_cast<unsigned long long>(job.done);
  std::string line = "    " + job.what;
  if (!job.running)
    return line + format(": %llu done, ended %s ago\n", done, since_text(job.since).c_str());
  return line + format(": %llu of %llu, %.0f/s, for %s\n", done,
                       static_cast<unsigned long long>(job.total), job.per_second,
                       since_text(job.since).c_str());
}

std::string clock_text(const FoundServer& server) {
  return format("%+.1f ms (+-%.1f)", seconds(server.clock_ahead) * 1e3,
                seconds(server.round_trip) * 500);
}

// Empty without names.
std::string names_line(const std::string& what, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::string line = "    " + what + ":";
  for (const std::string& name : names) line += " " + name;
  return line + "\n";
}

std::string server_text(const ClusterLook& look, const FoundServer& server) {
  if (!server.told) return server.address + "  does not answer: " + server.trouble + "\n";
  const ServerDescription& told = *server.told;
  std::string text = server.address;
  if (!told.host.empty()) text += "  host " + told.host;
  if (!told.zone.empty()) text += "  zone " + told.zone;
  text += "  release " + told.version + "  runs for " + since_text(told.runs_for);
  text += "  epoch " + (told.epoch.value ? std::to_string(told.epoch.value) : std::string("-"));
  text += "  clock " + clock_text(server);
  if (told.leaving) text += "  is leaving";
  text += "\n";
  for (const DescribedVolume& volume : told.volumes) text += volume_line_of(look, volume);
  for (const DescribedJob& job : told.jobs) text += job_line(job);
  return text + names_line("suspects", told.suspects) + names_line("at another map", told.apart);
}

// A gateway as the servers that answer know it.
struct KnownGateway {
  DescribedGateway told;    // the newest map and the longest connection of them
  std::size_t servers = 0;  // that it is connected to
};
std::vector<KnownGateway> gateways_of(const ClusterLook& look) {
  std::map<std::pair<std::string, std::string>, KnownGateway> by_name;
  for (const FoundServer& server : look.servers) {
    if (!server.told) continue;
    for (const DescribedGateway& gateway : server.told->gateways) {
      KnownGateway& known = by_name[{gateway.name, gateway.address}];
      known.told.name = gateway.name;
      known.told.address = gateway.address;
      known.told.epoch = std::max(known.told.epoch, gateway.epoch);
      known.told.connected_for = std::max(known.told.connected_for, gateway.connected_for);
      ++known.servers;
    }
  }
  std::vector<KnownGateway> all;
  for (auto& [name, known] : by_name) all.push_back(std::move(known));
  return all;
}

std::string gateway_text(const ClusterLook& look, const KnownGateway& gateway) {
  const DescribedGateway& told = gateway.told;
  std::string text = "gateway " + told.name + "  from " + told.address;
  text += "  epoch " + (told.epoch.value ? std::to_string(told.epoch.value) : std::string("-"));
  text += "  connected for " + since_text(told.connected_for);
  return text + "  to " + std::to_string(gateway.servers) + " of " +
         std::to_string(look.servers.size()) + " servers\n";
}

Json gateway_json(const KnownGateway& gateway) {
  return Json{{"name", gateway.told.name},
              {"address", gateway.told.address},
              {"epoch", gateway.told.epoch.value},
              {"connected_seconds", seconds(gateway.told.connected_for)},
              {"servers", gateway.servers}};
}

Json volume_json(const ClusterLook& look, const DescribedVolume& volume) {
  return Json{{"id", hex_id(volume.id.value)},
              {"name", name_of(look, volume.id)},
              {"path", volume.path},
              {"state", state_name(volume.status.state)},
              {"reason", volume.status.reason},
              {"full", volume.status.full},
              {"candidate", is_candidate(look, volume.id)},
              {"free_bytes", volume.status.free_bytes},
              {"total_bytes", volume.status.total_bytes},
              {"fragments", volume.status.fragment_count},
              {"fragment_bytes", volume.status.fragment_bytes},
              {"damaged_reads", volume.damaged_reads}};
}

Json server_json(const ClusterLook& look, const FoundServer& server) {
  Json json{{"address", server.address}, {"answers", server.told.has_value()}};
  if (!server.told) {
    json["reason"] = server.trouble;
    return json;
  }
  const ServerDescription& told = *server.told;
  json.update({{"release", told.version},
               {"host", told.host},
               {"zone", told.zone},
               {"runs_for_seconds", seconds(told.runs_for)},
               {"leaving", told.leaving},
               {"epoch", told.epoch.value},
               {"digest", told.digest},
               {"clock_ahead_seconds", seconds(server.clock_ahead)},
               {"round_trip_seconds", seconds(server.round_trip)},
               {"suspects", told.suspects},
               {"apart", told.apart},
               {"volumes", Json::array()},
               {"jobs", Json::array()}});
  for (const auto& volume : told.volumes) json["volumes"].push_back(volume_json(look, volume));
  for (const DescribedJob& job : told.jobs) {
    json["jobs"].push_back({{"what", job.what},
                            {"running", job.running},
                            {"done", job.done},
                            {"total", job.total},
                            {"per_second", job.per_second},
                            {"since_seconds", seconds(job.since)}});
  }
  return json;
}

std::string status_text(const ClusterLook& look, const std::vector<Finding>& findings) {
  std::string text;
  for (const FoundServer& server : look.servers) text += server_text(look, server);
  for (const KnownGateway& gateway : gateways_of(look)) text += gateway_text(look, gateway);
  for (const Finding& finding : findings) {
    text += (finding.volume.empty() ? "" : finding.volume + ": ") + finding.meaning + "\n";
  }
  return text + (findings.empty() ? "all is well\n" : "");
}

std::string status_json(const ClusterLook& look, const std::vector<Finding>& findings) {
  Json json{{"ok", !is_trouble(findings)},
            {"servers", Json::array()},
            {"gateways", Json::array()},
            {"findings", Json::array()}};
  for (const auto& server : look.servers) json["servers"].push_back(server_json(look, server));
  for (const auto& gateway : gateways_of(look)) json["gateways"].push_back(gateway_json(gateway));
  for (const Finding& finding : findings) {
    json["findings"].push_back(
        {{"what", finding.what}, {"volume", finding.volume}, {"meaning", finding.meaning}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// One look. The session is new each time: what was learned of addresses before may be wrong.
int look_once(const AdminStatusArguments& arguments) {
  const auto session = AdminSession::open(arguments.reach, "penstock admin status");
  if (!session) return tell_failure_of(session.error());
  const auto look = (*session)->run((*session)->look({}));
  if (!look) return tell_failure_of(look.error());
  const auto findings = find_trouble(*look, (*session)->source() != nullptr);
  const std::string text =
      arguments.json ? status_json(*look, findings) : status_text(*look, findings);
  if (arguments.watch && !arguments.json) std::fputs(kClearScreen, stdout);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  for (const FoundServer& server : look->servers) {
    if (server.told) return is_trouble(findings) ? kExitTrouble : 0;
  }
  return kExitFailed;
}

}  // namespace

int show_admin_status(const AdminStatusArguments& arguments) {
  int code = look_once(arguments);
  while (arguments.watch) {
    std::this_thread::sleep_for(kWatchEvery);
    code = look_once(arguments);
  }
  return code;
}

}  // namespace penstock
