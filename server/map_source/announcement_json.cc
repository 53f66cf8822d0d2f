#include "server/map_source/announcement_json.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "penstock/text_codec.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kVolumesMax = 4096;

std::string hex(std::uint64_t number) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return hex_encode(bytes);
}

Error broken() { return fail(Errc::corrupt, "what a server announces makes no sense"); }

Result<AnnouncedVolume> volume_of(const Json& json) {
  if (!json.is_object() || !json.contains("id") || !json["id"].is_string()) return broken();
  const auto& text = json["id"].get_ref<const std::string&>();
  AnnouncedVolume volume;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), volume.id.value, 16);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || volume.id.value == 0) return broken();
  if (json.contains("total_bytes")) {
    if (!json["total_bytes"].is_number_unsigned()) return broken();
    volume.total_bytes = json["total_bytes"].get<std::uint64_t>();
  }
  return volume;
}

Result<std::string> text_of(const Json& json, const char* name) {
  if (!json.contains(name)) return std::string();
  if (!json[name].is_string()) return broken();
  return json[name].get<std::string>();
}

}  // namespace

std::string encode_announcement(const Announcement& announcement) {
  Json json{{"address", announcement.address},
            {"host", announcement.host},
            {"zone", announcement.zone},
            {"volumes", Json::array()}};
  for (const AnnouncedVolume& volume : announcement.volumes) {
    json["volumes"].push_back({{"id", hex(volume.id.value)}, {"total_bytes", volume.total_bytes}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Announcement> decode_announcement(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("volumes") || !json["volumes"].is_array()) {
    return broken();
  }
  if (json["volumes"].size() > kVolumesMax) return broken();
  Announcement announcement;
  TRY(address, text_of(json, "address"));
  TRY(host, text_of(json, "host"));
  TRY(zone, text_of(json, "zone"));
  announcement.address = std::move(address);
  announcement.host = std::move(host);
  announcement.zone = std::move(zone);
  for (const Json& each : json["volumes"]) {
    TRY(volume, volume_of(each));
    announcement.volumes.push_back(volume);
  }
  return announcement;
}

}  // namespace penstock
