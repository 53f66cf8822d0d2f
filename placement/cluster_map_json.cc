// The text form of the cluster map. Canonical: keys sorted, no spaces, ids as hexadecimal strings
// (64-bit numbers do not survive every JSON reader), weights as the shortest decimal.
#include <openssl/evp.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/assert.h"
#include "placement/cluster_map.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kTextBytesMax = 64 << 20;

Error reject(std::string why) { return fail(Errc::invalid, "cluster map: " + std::move(why)); }

std::string hex(std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; number >>= 4) text[i] = kDigits[number & 15];
  return text;
}

Result<std::uint64_t> from_hex(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || text != hex(number)) return reject("an id is not 16 lower-case hex digits");
  return number;
}

std::array<unsigned char, 32> sha256(std::string_view text) {
  std::array<unsigned char, 32> digest{};
  [[maybe_unused]] const int ok =
      EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  PENSTOCK_ASSERT(ok == 1 && "SHA-256 of the default provider does not fail");
  return digest;
}

// One JSON object whose keys are all named: whatever is left at the end is unknown.
class Fields {
 public:
  static Result<Fields> of(const Json& value, std::string where) {
    if (!value.is_object()) return reject(where + " is not an object");
    return Fields(value, std::move(where));
  }
  Result<std::string> text(const char* key) {
    TRY(value, take(key));
    if (!value->is_string()) return reject(where_ + "." + key + " is not a string");
    return value->get<std::string>();
  }
  Result<std::uint64_t> number(const char* key, std::uint64_t max = ~std::uint64_t{0}) {
    TRY(value, take(key));
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() > max) {
      return reject(where_ + "." + key + " is not a number in its range");
    }
    return value->get<std::uint64_t>();
  }
  Result<double> real(const char* key) {
    TRY(value, take(key));
    if (!value->is_number()) return reject(where_ + "." + key + " is not a number");
    return value->get<double>();
  }
  Result<const Json*> list(const char* key) {
    TRY(value, take(key));
    if (!value->is_array()) return reject(where_ + "." + key + " is not a list");
    return value;
  }
  Result<const Json*> take(const char* key) {
    const auto found = value_->find(key);
    if (found == value_->end()) return reject(where_ + " lacks \"" + key + "\"");
    taken_.insert(key);
    return &*found;
  }
  bool has(const char* key) const { return value_->contains(key); }
  Result<> no_more() const {
    for (const auto& item : value_->items()) {
      if (!taken_.contains(item.key())) {
        return reject(where_ + " has an unknown key \"" + item.key() + "\"");
      }
    }
    return {};
  }

 private:
  Fields(const Json& value, std::string where) : value_(&value), where_(std::move(where)) {}
  const Json* value_;
  std::string where_;
  std::set<std::string, std::less<>> taken_;
};

Result<std::vector<VolumeId>> parse_ids(const Json& list) {
  std::vector<VolumeId> ids;
  for (const Json& item : list) {
    if (!item.is_string()) return reject("a list of volumes holds something else than ids");
    TRY(id, from_hex(item.get_ref<const std::string&>()));
    ids.push_back(VolumeId{id});
  }
  return ids;
}

Result<MapVolume> parse_volume(const Json& json) {
  TRY(fields, Fields::of(json, "volume"));
  MapVolume volume;
  TRY(id_text, fields.text("id"));
  TRY(id, from_hex(id_text));
  TRY(name, fields.text("name"));
  TRY(address, fields.text("address"));
  TRY(host, fields.text("host"));
  TRY(zone, fields.text("zone"));
  TRY(weight, fields.real("weight"));
  VolumeId successor;  // there only while the volume is being replaced
  if (fields.has("successor")) {
    TRY(text, fields.text("successor"));
    TRY(number, from_hex(text));
    successor = VolumeId{number};
  }
  CHECK_OK(fields.no_more());
  return MapVolume{VolumeId{id},    std::move(name), std::move(address), std::move(host),
                   std::move(zone), weight,          successor};
}

Result<MapGroup> parse_group(const Json& json) {
  TRY(fields, Fields::of(json, "group"));
  TRY(epoch, fields.number("epoch"));
  TRY(replicas, fields.list("replicas"));
  TRY(joint, fields.list("joint"));
  CHECK_OK(fields.no_more());
  MapGroup group;
  group.epoch = Epoch{epoch};
  TRY(replica_ids, parse_ids(*replicas));
  TRY(joint_ids, parse_ids(*joint));
  group.replicas = std::move(replica_ids);
  group.joint = std::move(joint_ids);
  return group;
}

Result<LayoutPolicy> parse_policy(const Json& json) {
  constexpr std::uint64_t kSmall = 1000;
  TRY(fields, Fields::of(json, "policy"));
  TRY(k, fields.number("k", kSmall));
  TRY(m, fields.number("m", kSmall));
  TRY(replicas, fields.number("replicas", kSmall));
  LayoutPolicy policy;
  policy.k = static_cast<std::uint32_t>(k);
  policy.m = static_cast<std::uint32_t>(m);
  policy.replicas = static_cast<std::uint32_t>(replicas);
  TRY(unit_bytes, fields.number("unit_bytes"));
  TRY(inline_bytes_max, fields.number("inline_bytes_max"));
  TRY(replicated_bytes_max, fields.number("replicated_bytes_max"));
  CHECK_OK(fields.no_more());
  policy.unit_bytes = unit_bytes;
  policy.inline_bytes_max = inline_bytes_max;
  policy.replicated_bytes_max = replicated_bytes_max;
  return policy;
}

// nlohmann keeps the last of two equal keys in silence; a map that says two things is refused.
Result<std::unique_ptr<Json>> parse_unique(std::string_view text) {
  if (text.size() > kTextBytesMax) return reject("the text is too long");
  std::vector<std::set<std::string, std::less<>>> open;
  bool repeated = false;
  const Json::parser_callback_t watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key) {
      repeated |= !open.back().insert(value.get<std::string>()).second;
    }
    return true;
  };
  auto json = std::make_unique<Json>(Json::parse(text, watch, false));
  if (json->is_discarded()) return reject("not JSON");
  if (repeated) return reject("a key is there twice");
  return json;
}

Json json_of(const std::vector<VolumeId>& ids) {
  Json list = Json::array();
  for (const VolumeId id : ids) list.push_back(hex(id.value));
  return list;
}

}  // namespace

std::string ClusterMap::to_json() const {
  Json json;
  json["format"] = kFormat;
  json["cluster"] = hex(cluster.high) + hex(cluster.low);
  json["epoch"] = epoch.value;
  json["policy"] = {{"k", policy.k},
                    {"m", policy.m},
                    {"replicas", policy.replicas},
                    {"unit_bytes", policy.unit_bytes},
                    {"inline_bytes_max", policy.inline_bytes_max},
                    {"replicated_bytes_max", policy.replicated_bytes_max}};
  json["volumes"] = Json::array();
  for (const auto& volume : volumes) {
    json["volumes"].push_back({{"id", hex(volume.id.value)},
                               {"name", volume.name},
                               {"address", volume.address},
                               {"host", volume.host},
                               {"zone", volume.zone},
                               {"weight", volume.weight}});
    if (volume.successor.value != 0) {
      json["volumes"].back()["successor"] = hex(volume.successor.value);
    }
  }
  json["groups"] = Json::array();
  for (const auto& group : groups) {
    json["groups"].push_back({{"epoch", group.epoch.value},
                              {"replicas", json_of(group.replicas)},
                              {"joint", json_of(group.joint)}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<ClusterMap> ClusterMap::parse(std::string_view text) {
  TRY(json, parse_unique(text));
  TRY(fields, Fields::of(*json, "map"));
  TRY(format, fields.number("format"));
  if (format != kFormat) return reject("format " + std::to_string(format) + " is not known here");
  TRY(cluster_text, fields.text("cluster"));
  TRY(epoch, fields.number("epoch"));
  TRY(policy_json, fields.take("policy"));
  TRY(volume_list, fields.list("volumes"));
  TRY(group_list, fields.list("groups"));
  CHECK_OK(fields.no_more());
  if (cluster_text.size() != 32) return reject("the cluster id is not 32 hex digits");
  ClusterMap map;
  TRY(high, from_hex(std::string_view(cluster_text).substr(0, 16)));
  TRY(low, from_hex(std::string_view(cluster_text).substr(16)));
  map.cluster = ClusterId{high, low};
  map.epoch = Epoch{epoch};
  TRY(policy, parse_policy(*policy_json));
  map.policy = policy;
  for (const Json& item : *volume_list) {
    TRY(volume, parse_volume(item));
    map.volumes.push_back(std::move(volume));
  }
  for (const Json& item : *group_list) {
    TRY(group, parse_group(item));
    map.groups.push_back(std::move(group));
  }
  CHECK_OK(check_map(map));
  map.digest = sha256(map.to_json());
  return map;
}

}  // namespace penstock
