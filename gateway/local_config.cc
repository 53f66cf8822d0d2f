#include "gateway/local_config.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace penstock {
namespace {
using Json = nlohmann::json;

// Json itself makes a Result of anything.
struct Document {
  Json json;
};

// Of two that have one name JSON keeps either: nobody could say which one counts.
struct RepeatedKey {
  std::vector<std::set<std::string>> open;  // the keys of each object that has not ended
  std::optional<std::string> found;

  void look_at(Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event != Json::parse_event_t::key) return;
    const bool is_new = open.back().insert(parsed.get<std::string>()).second;
    if (!is_new && !found) found = parsed.get<std::string>();
  }
};

// Reads one object key by key; what was not asked for is unknown.
class ConfigFields {
 public:
  ConfigFields(const Json& object, std::string name) : object_(object), name_(std::move(name)) {}

  void number(const char* key, std::uint64_t& value, std::uint64_t low, std::uint64_t high) {
    const Json* found = find(key, value);
    if (found == nullptr) return;
    if (!found->is_number_integer()) return complain(key, "wants a whole number");
    const bool negative = !found->is_number_unsigned();
    const auto given = negative ? 0 : found->get<std::uint64_t>();
    if (negative || given < low || given > high) {
      return complain(key,
                      "wants a number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    value = given;
  }
  // At least one, at most a year of them.
  void seconds(const char* key, Duration& value) {
    constexpr std::uint64_t kYear = 366 * 24 * 3600;
    auto given =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(value).count());
    number(key, given, 1, kYear);
    value = std::chrono::seconds(given);
  }
  void text(const char* key, std::string& value) {
    const Json* found = find(key, value);
    if (found == nullptr) return;
    if (!found->is_string()) return complain(key, "wants a string");
    value = found->get<std::string>();
  }
  void flag(const char* key, bool& value) {
    const Json* found = find(key, value);
    if (found == nullptr) return;
    if (!found->is_boolean()) return complain(key, "wants true or false");
    value = found->get<bool>();
  }
  void texts(const char* key, std::vector<std::string>& values) {
    const Json* found = find(key, values);
    if (found == nullptr) return;
    if (!found->is_array()) return complain(key, "wants a list of strings");
    for (const auto& item : *found) {
      if (!item.is_string()) return complain(key, "wants a list of strings");
      values.push_back(item.get<std::string>());
    }
  }
  const Json* object(const char* key) {
    const Json* found = find(key, Json::object());
    if (found != nullptr && !found->is_object()) {
      complain(key, "wants an object");
      return nullptr;
    }
    return found;
  }
  // The first complaint, or that of a key nobody asked for.
  Result<> finish() {
    if (!complaint_.empty()) return fail(Errc::invalid, complaint_);
    for (const auto& [key, value] : object_.items()) {
      if (!defaults_.contains(key)) {
        return fail(Errc::invalid, "unknown key \"" + name_ + key + "\"");
      }
    }
    return Result<>{};
  }
  Json defaults() const { return defaults_; }

 private:
  const Json* find(const char* key, Json by_default) {
    defaults_[key] = std::move(by_default);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  void complain(const char* key, const std::string& what) {
    if (complaint_.empty()) complaint_ = "key \"" + name_ + key + "\" " + what;
  }
  const Json& object_;
  std::string name_;
  Json defaults_ = Json::object();  // of the keys that were asked for
  std::string complaint_;
};

Result<> read_layout(const Json& object, LocalConfig& config) {
  ConfigFields fields(object, "layout.");
  std::uint64_t k = config.policy.k, m = config.policy.m, replicas = config.policy.replicas;
  fields.number("k", k, 1, limits::kFragmentsPerStripeMax);
  fields.number("m", m, 0, limits::kFragmentsPerStripeMax);
  fields.number("replicas", replicas, 1, limits::kReplicasMax);
  fields.number("unit_bytes", config.policy.unit_bytes, limits::kBlockBytes, 64 * limits::kMiB);
  fields.number("inline_bytes_max", config.policy.inline_bytes_max, 0, limits::kValueBytesMax);
  fields.number("replicated_bytes_max", config.policy.replicated_bytes_max, 0,
                limits::kExtentBytesMax);
  CHECK_OK(fields.finish());
  config.policy.k = static_cast<std::uint32_t>(k);
  config.policy.m = static_cast<std::uint32_t>(m);
  config.policy.replicas = static_cast<std::uint32_t>(replicas);
  config.has_policy = true;
  return Result<>{};
}

// Gives the defaults.
Result<Document> read_removal(const Json& object, RemovalOptions& removal) {
  ConfigFields fields(object, "removal.");
  fields.seconds("hint_delay_seconds", removal.hint_delay);
  fields.seconds("lease_seconds", removal.lease);
  fields.seconds("hints_every_seconds", removal.hints_every);
  fields.seconds("sweep_every_seconds", removal.sweep_every);
  fields.seconds("uploads_every_seconds", removal.uploads_every);
  fields.seconds("upload_expiry_seconds", removal.upload_expiry);
  fields.seconds("upload_kept_seconds", removal.upload_kept);
  fields.seconds("tombstones_every_seconds", removal.tombstones_every);
  fields.seconds("tombstone_wait_seconds", removal.tombstone_wait);
  fields.seconds("buckets_every_seconds", removal.buckets_every);
  std::uint64_t steps = removal.steps_per_second;
  fields.number("steps_per_second", steps, 1, 1'000'000);
  removal.steps_per_second = static_cast<std::uint32_t>(steps);
  removal.takeover = removal.hint_delay;
  CHECK_OK(fields.finish());
  return Document{fields.defaults()};
}

void read_role(ConfigFields& fields, RoleSettings& role) {
  fields.text("listen", role.listen);
  fields.text("admin_listen", role.admin_listen);
  fields.texts("directories", role.directories);
  fields.text("credentials", role.credentials);
  fields.text("key", role.key);
  fields.text("tls_cert", role.tls_cert);
  fields.text("tls_key", role.tls_key);
  fields.text("tls_ca", role.tls_ca);
  fields.text("map", role.map);
  fields.text("address", role.address);
  fields.text("host", role.host);
  fields.text("zone", role.zone);
  fields.texts("peers", role.peers);
  fields.texts("servers", role.servers);
}

// A region is signed as it is named here, between slashes.
Result<> check_names(const GatewayConfig& gateway) {
  constexpr std::size_t kRegionBytesMax = 64;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  const std::string& region = gateway.region;
  if (region.empty() || region.size() > kRegionBytesMax ||
      !std::all_of(region.begin(), region.end(), plain)) {
    return fail(Errc::invalid,
                "key \"region\" wants 1 to 64 letters, digits, dashes, underscores: "
                "name one, or leave the key out for us-east-1");
  }
  for (const std::string& domain : gateway.domains) {
    if (domain.empty()) return fail(Errc::invalid, "key \"domains\" holds an empty name");
  }
  return {};
}

Result<Document> parse_document(std::string_view json) {
  RepeatedKey repeated;
  const Json document = Json::parse(
      json,
      [&repeated](int, Json::parse_event_t event, const Json& parsed) {
        repeated.look_at(event, parsed);
        return true;
      },
      false, true);  // no exceptions; comments are passed over
  if (repeated.found) return fail(Errc::invalid, "key \"" + *repeated.found + "\" is there twice");
  if (!document.is_object()) return fail(Errc::invalid, "not a JSON object");
  return Document{document};
}

struct ReadConfig {
  LocalConfig config;
  Json defaults;
};
Result<ReadConfig> read_document(const Json& document) {
  LocalConfig config;
  ConfigFields fields(document, "");
  std::uint64_t io_threads = 0;
  read_role(fields, config.role);
  fields.text("region", config.gateway.region);
  fields.texts("domains", config.gateway.domains);
  fields.flag("strict_region", config.gateway.strict_region);
  fields.number("io_threads", io_threads, 0, 256);
  fields.number("memory", config.memory, 0, limits::kTiB);
  fields.number("connections_max", config.connections_max, 1, 1'000'000);
  fields.number("connections_per_address_max", config.connections_per_address_max, 0, 1'000'000);
  fields.number("reader_pause_seconds", config.reader_pause_seconds, 1, 24 * 3600);
  fields.number("free_space_min_bytes", config.free_space_min_bytes, 0, limits::kTiB);
  fields.number("free_space_min_percent", config.free_space_min_percent, 0, 50);
  fields.number("ballast_bytes", config.ballast_bytes, 0, limits::kGiB);
  fields.number("disk_call_max_seconds", config.disk_call_max_seconds, 3, 3600);
  fields.flag("read_on_caller", config.read_on_caller);
  fields.flag("sendfile", config.sendfile);
  fields.flag("signature_v2", config.signature_v2);
  fields.text("access_log", config.access_log);
  fields.text("log_level", config.log_level);
  const Json* layout = fields.object("layout");
  const Json* removal = fields.object("removal");
  CHECK_OK(fields.finish());
  CHECK_OK(check_names(config.gateway));
  config.io_threads = static_cast<unsigned>(io_threads);
  if (layout != nullptr) CHECK_OK(read_layout(*layout, config));
  Json defaults = fields.defaults();
  RemovalOptions unused;
  TRY(of_removal, removal != nullptr ? read_removal(*removal, config.removal)
                                     : read_removal(Json::object(), unused));
  defaults["removal"] = std::move(of_removal.json);
  defaults.erase("layout");  // there the number of volumes decides
  return ReadConfig{std::move(config), std::move(defaults)};
}

}  // namespace

Result<LocalConfig> parse_local_config(std::string_view json) {
  TRY(document, parse_document(json));
  TRY(read, read_document(document.json));
  return std::move(read.config);
}

std::string default_config() { return read_document(Json::object()).value().defaults.dump(); }

}  // namespace penstock
