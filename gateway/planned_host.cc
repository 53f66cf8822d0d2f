#include "gateway/planned_host.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "penstock/hex_id.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

constexpr std::uint32_t kVolumesMax = 1000;  // of one host

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> bytes_of(std::string_view text) {
  std::uint64_t unit = 1;
  if (text.ends_with('T')) unit = 1024 * limits::kGiB;
  if (text.ends_with('G')) unit = limits::kGiB;
  if (unit != 1) text.remove_suffix(1);
  const auto number = number_of<double>(text);
  if (!number || !std::isfinite(*number) || *number < 0 || *number > 1e9) return std::nullopt;
  return static_cast<std::uint64_t>(*number * static_cast<double>(unit));
}

std::string_view next_word(std::string_view& text) {
  const auto comma = text.find(',');
  const std::string_view word = text.substr(0, comma);
  text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  return word;
}

bool set_field(PlannedHost& host, std::string_view key, std::string_view value) {
  if (key == "zone") {
    host.zone = value;
    return true;
  }
  if (key == "volumes") {
    const auto count = number_of<std::uint32_t>(value);
    if (count) host.volumes = *count;
    return count && *count > 0 && *count <= kVolumesMax;
  }
  if (key == "weight") {
    const auto weight = number_of<double>(value);
    if (weight) host.weight = *weight;
    return weight && std::isfinite(*weight) && *weight > 0 && *weight <= 1e6;
  }
  if (key != "size") return false;
  const auto bytes = bytes_of(value);
  if (bytes) host.size_bytes = *bytes;
  return bytes.has_value();
}

}  // namespace

Result<PlannedHost> parse_planned_host(std::string_view text) {
  PlannedHost host;
  host.name = next_word(text);
  const std::string shape = "NAME[,zone=Z][,volumes=N][,weight=W][,size=BYTES]";
  if (host.name.empty() || host.name.find('=') != std::string::npos) {
    return fail(Errc::invalid, "--add wants " + shape);
  }
  std::set<std::string_view> keys;
  while (!text.empty()) {
    const std::string_view word = next_word(text);
    const auto equals = word.find('=');
    if (!keys.insert(word.substr(0, equals)).second) {
      return fail(Errc::invalid,
                  "--add: \"" + std::string(word.substr(0, equals)) + "\" stands twice");
    }
    if (equals == std::string_view::npos ||
        !set_field(host, word.substr(0, equals), word.substr(equals + 1))) {
      return fail(Errc::invalid, "--add: \"" + std::string(word) + "\" makes no sense: " + shape);
    }
  }
  return host;
}

std::vector<MapVolume> planned_volumes(const ClusterMap& map, const PlannedHost& host) {
  std::vector<MapVolume> volumes;
  std::uint64_t salt = map.volumes.size();
  for (std::uint32_t i = 0; i < host.volumes; ++i) {
    MapVolume volume;
    do {
      volume.id = VolumeId{mix_hash(++salt)};
    } while (map.find(volume.id) != nullptr);
    volume.host = host.name;
    volume.zone = host.zone;
    volume.weight = host.weight;
    volumes.push_back(std::move(volume));
  }
  return volumes;
}

Result<std::set<VolumeId>> volumes_named(const ClusterMap& map, std::string_view name) {
  std::set<VolumeId> ids;
  for (const MapVolume& volume : map.volumes) {
    const bool meant = volume.name == name || hex_id(volume.id.value) == name ||
                       volume.host == name || volume.address == name ||
                       (!volume.zone.empty() && volume.zone == name);
    if (meant) ids.insert(volume.id);
  }
  if (ids.empty()) {
    return fail(Errc::not_found, "there is no volume, host, address or zone \"" +
                                     std::string(name) + "\": see `penstock ring show`");
  }
  return ids;
}

Result<LayoutPolicy> parse_layout(std::string_view text, std::uint32_t failure_domains) {
  const auto plus = text.find('+');
  const auto k = number_of<std::uint32_t>(text.substr(0, plus));
  const auto m = number_of<std::uint32_t>(plus == std::string_view::npos ? std::string_view{}
                                                                         : text.substr(plus + 1));
  if (!k || !m || *k > limits::kFragmentsPerStripeMax || *m > limits::kFragmentsPerStripeMax) {
    return fail(Errc::invalid, "--layout wants K+M, e.g. 4+2");
  }
  TRY(policy, default_policy(failure_domains));
  policy.k = *k;
  policy.m = *m;
  CHECK_OK(check_policy(policy));
  return policy;
}

}  // namespace penstock
