#include "gateway/cluster_file.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gateway/trust_options.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFilePrefix = "file:";

std::string beside(const std::string& directory, const std::string& path) {
  return (std::filesystem::path(directory) / path).string();
}

std::string text_at(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

}  // namespace

Result<ReachArguments> complete_from_json(ReachArguments reach, std::string_view text,
                                          const std::string& directory) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return fail(Errc::invalid, directory + "/cluster.json is no description of a cluster");
  }
  TrustArguments& trust = reach.trust;
  const std::string key = text_at(json, "key");
  const std::string tls = text_at(json, "tls");
  const bool given = has_trust(trust);
  if (!given && !key.empty()) trust.key_file = beside(directory, key);
  if (!given && !tls.empty()) {
    const std::string folder = beside(directory, tls);
    trust.tls_certificate = folder + "/admin.pem";
    trust.tls_key = folder + "/admin.key";
    trust.tls_authorities = folder + "/ca.pem";
  }
  std::string map = text_at(json, "map");
  if (map.starts_with(kFilePrefix)) {
    map = std::string(kFilePrefix) + beside(directory, map.substr(kFilePrefix.size()));
  }
  const bool asked = !reach.map.empty() || !reach.servers.empty();
  if (!asked) reach.map = map;
  const auto servers = json.find("servers");
  if (asked || servers == json.end() || !servers->is_array()) return reach;
  for (const Json& server : *servers) {
    if (!server.is_object()) continue;
    std::string address = text_at(server, "address");
    if (!address.empty()) reach.servers.push_back(std::move(address));
  }
  return reach;
}

Result<ReachArguments> complete_reach(ReachArguments reach) {
  if (!reach.directory.empty()) {
    std::ifstream file(beside(reach.directory, "cluster.json"));
    if (!file) {
      return fail(Errc::not_found, "cannot read \"" + reach.directory +
                                       "/cluster.json\": --cluster wants the directory of "
                                       "`scripts/cluster` or of `penstock ring export`");
    }
    std::stringstream text;
    text << file.rdbuf();
    const std::string directory = reach.directory;
    TRY(completed, complete_from_json(std::move(reach), text.str(), directory));
    reach = std::move(completed);
  }
  if (reach.map.empty() && reach.servers.empty()) {
    return fail(Errc::invalid,
                "say where the cluster is: --map etcd://HOST:PORT/CLUSTER-ID or --map file:PATH, "
                "--servers HOST:PORT,…, or --cluster DIR");
  }
  if (!has_trust(reach.trust)) {
    return fail(Errc::invalid,
                "say how the cluster knows this command: --key FILE, or --tls-cert, --tls-key and "
                "--tls-ca");
  }
  return reach;
}

}  // namespace penstock
