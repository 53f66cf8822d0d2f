#include "gateway/server_description.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "penstock/hex_id.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

std::int64_t microseconds(Duration duration) { return duration.count(); }

Json json_of(const DescribedVolume& volume) {
  return Json{{"id", hex_id(volume.id.value)},
              {"path", volume.path},
              {"state", state_name(volume.status.state)},
              {"reason", volume.status.reason},
              {"full", volume.status.full},
              {"free_bytes", volume.status.free_bytes},
              {"total_bytes", volume.status.total_bytes},
              {"fragments", volume.status.fragment_count},
              {"fragment_bytes", volume.status.fragment_bytes},
              {"damaged_reads", volume.damaged_reads}};
}

Json json_of(const DescribedJob& job) {
  return Json{
      {"what", job.what},   {"running", job.running},       {"done", job.done},
      {"total", job.total}, {"per_second", job.per_second}, {"since_us", microseconds(job.since)}};
}

Json json_of(const DescribedGateway& gateway) {
  return Json{{"name", gateway.name},
              {"address", gateway.address},
              {"epoch", gateway.epoch.value},
              {"connected_for_us", microseconds(gateway.connected_for)}};
}

// Reads keys of one object; remembers whether one of them was of another type than wanted.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}
  bool ok() const { return ok_; }

  std::string text(const char* key) {
    const Json* value = find(key, &Json::is_string);
    return value ? value->get<std::string>() : std::string();
  }
  bool flag(const char* key) {
    const Json* value = find(key, &Json::is_boolean);
    return value && value->get<bool>();
  }
  std::uint64_t number(const char* key) {
    const Json* value = find(key, &Json::is_number_unsigned);
    return value ? value->get<std::uint64_t>() : 0;
  }
  std::int64_t integer(const char* key) {
    const Json* value = find(key, &Json::is_number_integer);
    return value ? value->get<std::int64_t>() : 0;
  }
  double real(const char* key) {
    const Json* value = find(key, &Json::is_number);
    return value ? value->get<double>() : 0;
  }
  const Json& list(const char* key) {
    static const Json kNone = Json::array();
    const Json* value = find(key, &Json::is_array);
    return value ? *value : kNone;
  }

 private:
  const Json* find(const char* key, bool (Json::*is)() const noexcept) {
    if (!json_.is_object()) ok_ = false;
    if (!ok_) return nullptr;
    const auto at = json_.find(key);
    if (at == json_.end()) return nullptr;
    if (((*at).*is)()) return &*at;
    ok_ = false;
    return nullptr;
  }

  const Json& json_;
  bool ok_ = true;
};

VolumeStatus::State state_of_name(const std::string& name) {
  for (const auto state : {VolumeStatus::State::open, VolumeStatus::State::closed}) {
    if (state_name(state) == name) return state;
  }
  return VolumeStatus::State::missing;
}

std::optional<DescribedVolume> read_volume(const Json& json) {
  Reader reader(json);
  DescribedVolume volume;
  const auto id = number_of_hex_id(reader.text("id"));
  if (!id) return std::nullopt;
  volume.id = VolumeId{*id};
  volume.path = reader.text("path");
  volume.status.state = state_of_name(reader.text("state"));
  volume.status.reason = reader.text("reason");
  volume.status.full = reader.flag("full");
  volume.status.free_bytes = reader.number("free_bytes");
  volume.status.total_bytes = reader.number("total_bytes");
  volume.status.fragment_count = reader.number("fragments");
  volume.status.fragment_bytes = reader.number("fragment_bytes");
  volume.damaged_reads = reader.number("damaged_reads");
  if (!reader.ok()) return std::nullopt;
  return volume;
}

std::optional<DescribedJob> read_job(const Json& json) {
  Reader reader(json);
  DescribedJob job;
  job.what = reader.text("what");
  job.running = reader.flag("running");
  job.done = reader.number("done");
  job.total = reader.number("total");
  job.per_second = reader.real("per_second");
  job.since = Duration(reader.integer("since_us"));
  if (!reader.ok()) return std::nullopt;
  return job;
}

std::optional<DescribedGateway> read_gateway(const Json& json) {
  Reader reader(json);
  DescribedGateway gateway;
  gateway.name = reader.text("name");
  gateway.address = reader.text("address");
  gateway.epoch = Epoch{reader.number("epoch")};
  gateway.connected_for = Duration(reader.integer("connected_for_us"));
  if (!reader.ok()) return std::nullopt;
  return gateway;
}

bool read_names(const Json& list, std::vector<std::string>& names) {
  for (const Json& each : list) {
    if (!each.is_string()) return false;
    names.push_back(each.get<std::string>());
  }
  return true;
}

Error not_understood() {
  return fail(Errc::corrupt, "what the server says of itself makes no sense");
}

}  // namespace

std::string description_text(const ServerDescription& server) {
  Json json{{"version", server.version},
            {"host", server.host},
            {"zone", server.zone},
            {"wall_us", server.wall.time_since_epoch().count()},
            {"runs_for_us", microseconds(server.runs_for)},
            {"leaving", server.leaving},
            {"epoch", server.epoch.value},
            {"digest", server.digest},
            {"volumes", Json::array()},
            {"jobs", Json::array()},
            {"gateways", Json::array()},
            {"suspects", server.suspects},
            {"apart", server.apart}};
  for (const auto& volume : server.volumes) json["volumes"].push_back(json_of(volume));
  for (const auto& job : server.jobs) json["jobs"].push_back(json_of(job));
  for (const auto& gateway : server.gateways) json["gateways"].push_back(json_of(gateway));
  // A path may be any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<ServerDescription> read_description(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  Reader reader(json);
  ServerDescription server;
  server.version = reader.text("version");
  server.host = reader.text("host");
  server.zone = reader.text("zone");
  server.wall = WallTime(Duration(reader.integer("wall_us")));
  server.runs_for = Duration(reader.integer("runs_for_us"));
  server.leaving = reader.flag("leaving");
  server.epoch = Epoch{reader.number("epoch")};
  server.digest = reader.text("digest");
  for (const Json& each : reader.list("volumes")) {
    auto volume = read_volume(each);
    if (!volume) return not_understood();
    server.volumes.push_back(std::move(*volume));
  }
  for (const Json& each : reader.list("jobs")) {
    auto job = read_job(each);
    if (!job) return not_understood();
    server.jobs.push_back(std::move(*job));
  }
  for (const Json& each : reader.list("gateways")) {
    auto gateway = read_gateway(each);
    if (!gateway) return not_understood();
    server.gateways.push_back(std::move(*gateway));
  }
  if (!read_names(reader.list("suspects"), server.suspects)) return not_understood();
  if (!read_names(reader.list("apart"), server.apart)) return not_understood();
  if (!reader.ok()) return not_understood();
  return server;
}

}  // namespace penstock
