// `penstock ring export`: a stopped store of `penstock local` becomes a cluster of one server.
//
//   1  the cluster's key, with the store's own id; the accounts
//   2  the volumes take a map that says where they will be served. From here on the store is a
//      cluster's: `penstock local` refuses it
//   3  that map goes to the map source; cluster.json says where everything is
//
// Cut off before 2, the store is what it was. After it, saying it again does the rest.
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "gateway/local_arguments.h"
#include "gateway/process/cluster_commands.h"
#include "gateway/process/stack_options.h"
#include "gateway/process_shares.h"
#include "penstock/wait_on.h"
#include "penstock/whole_file.h"
#include "placement/map_change.h"
#include "server/map_source/map_source.h"
#include "server/membership/map_install.h"
#include "server/node/server_stack.h"
#include "server/transport/cluster_key.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

constexpr Duration kPatience = std::chrono::seconds(30);
constexpr std::size_t kVolumesAtLeast = 16;  // under one directory; how many is not known yet

struct Exported {
  ClusterId cluster;
  std::shared_ptr<const ClusterMap> map;
  std::vector<std::string> paths;  // of the volumes
  std::string key_file;
  std::string credentials_file;
  std::string source;
};

// Of mode 0600, durable. Keeps a file that is there. Errors: io; full.
Result<> write_private(const std::string& path, const std::string& text) {
  if (std::filesystem::exists(path)) return {};
  return replace_whole_file(path, text);
}

// All volumes there and open, no change under way, and none of another server.
Result<> check_store(VolumeSet& volumes) {
  if (change_of(*volumes.map())) {
    return fail(Errc::busy,
                "a volume is being replaced: start `penstock local`, wait until `penstock ring "
                "status DIR` says whole, and stop it");
  }
  for (const auto& volume : volumes.states()) {
    if (volume.status.state == VolumeStatus::State::open) continue;
    return fail(Errc::unavailable, "volume " + volume.name + " is not open (" +
                                       volume.status.reason +
                                       "): bring it back or replace it under `penstock local` "
                                       "first. If the store is a cluster's that has grown to other "
                                       "servers, there is nothing to export");
  }
  return {};
}

Result<> write_key(const std::string& path, ClusterId cluster, Random& random) {
  if (std::filesystem::exists(path)) {
    TRY(key, read_cluster_key(path));
    if (key.cluster == cluster) return {};
    return fail(Errc::invalid, path + " is the key of another cluster: give another --to");
  }
  ClusterKey key = make_cluster_key(random);
  key.cluster = cluster;
  return write_cluster_key(path, key);
}

Result<Account> root_of(const std::vector<std::string>& directories) {
  Result<Account> root = fail(Errc::not_found, "no root credentials");
  for (const std::string& directory : directories) {
    root = read_root_credentials(directory);
    if (root) break;
  }
  return root;
}

Result<> write_accounts(const std::string& path, const RingExportArguments& arguments) {
  TRY(root, root_of(arguments.directories));
  std::vector<Account> accounts{root};
  if (!arguments.credentials_file.empty()) {
    TRY(more, read_accounts(arguments.credentials_file));
    accounts.insert(accounts.end(), more.begin(), more.end());
  }
  Json json = Json::array();
  for (const Account& account : accounts) {
    json.push_back({{"access_key", account.access_key},
                    {"secret_key", account.secret_key},
                    {"account_id", account.account_id},
                    {"display_name", account.display_name},
                    {"email", account.email}});
  }
  return write_private(path, json.dump(2) + "\n");
}

// Step 2. Again, with the same address: the map that the volumes hold.
Result<std::shared_ptr<const ClusterMap>> give_to_cluster(ServerStack& server,
                                                          const RingExportArguments& arguments) {
  VolumeSet& volumes = server.volumes();
  const std::string& host = arguments.host.empty() ? arguments.listen : arguments.host;
  TRY(next, serve_at(*volumes.map(), arguments.listen, host, arguments.zone));
  auto map = std::make_shared<const ClusterMap>(std::move(next));
  ProcessBase& base = server.base();
  TRY(installed,
      wait_on(base.io.at(0),
              install_map(map, volumes.clients(), base.clock, base.clock.boot() + kPatience),
              "export"));
  if (!installed.failed.empty()) return installed.failed.front().second;
  return map;
}

Task<> put_map(std::shared_ptr<MapSource> source, std::shared_ptr<const ClusterMap> map,
               Deadline deadline) {
  CO_TRY(head, co_await source->read(deadline));
  if (!head.unreadable.empty()) {
    co_return fail(Errc::invalid, head.unreadable + ": remove it, or give another --map");
  }
  if (head.map && head.map->digest == map->digest) co_return Result<>{};
  if (head.map && head.map->epoch >= map->epoch) {
    co_return fail(Errc::invalid, source->name() + " holds a newer map of this cluster, of epoch " +
                                      std::to_string(head.map->epoch.value) +
                                      ": give another --map");
  }
  CO_TRY(revision, co_await source->replace(map, head.revision, deadline));
  (void)revision;
  co_return Result<>{};
}

Result<> write_source(ServerStack& server, const Exported& exported) {
  ProcessBase& base = server.base();
  TRY(opened,
      open_map_source(exported.source, MapSourceParts{base.clock, base.random, exported.cluster}));
  // Its last reference goes here, when no call is under way.
  const std::shared_ptr<MapSource> source = std::move(opened);
  return wait_on(base.io.at(0), put_map(source, exported.map, base.clock.boot() + kPatience),
                 "export");
}

Result<> write_cluster_json(const std::string& path, const Exported& exported,
                            const std::string& address) {
  Json volumes = Json::array();
  for (const std::string& place : exported.paths) volumes.push_back({{"path", place}});
  const Json json{
      {"credentials", exported.credentials_file},
      {"key", exported.key_file},
      {"tls", nullptr},
      {"map", exported.source},
      {"gateways", Json::array()},
      {"servers", Json::array({{{"name", "s1"}, {"address", address}, {"volumes", volumes}}})},
      {"etcd", nullptr}};
  return replace_whole_file(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

ServerOptions options_of(const RingExportArguments& arguments, const ProcessShares& shares) {
  ServerOptions options = options_of_server(LocalConfig{}, shares, RowReaders::own_process);
  options.store.directories = arguments.directories;
  options.store.as_it_is = true;
  return options;
}

Result<Exported> export_store(const RingExportArguments& arguments, ServerStack& server) {
  CHECK_OK(parse_endpoint(arguments.listen, "--listen"));
  std::error_code error;
  const std::string to = std::filesystem::absolute(arguments.to, error).lexically_normal().string();
  std::filesystem::create_directories(to, error);
  if (error) return fail(Errc::io, "cannot make \"" + to + "\": " + error.message());
  if (const auto started = server.start(); !started) {
    return fail(started.error().code, "no store that can be exported: " + started.error().context);
  }
  VolumeSet& volumes = server.volumes();
  CHECK_OK(check_store(volumes));
  Exported exported;
  exported.cluster = volumes.map()->cluster;
  for (const auto& volume : volumes.states()) {
    exported.paths.push_back(std::filesystem::absolute(volume.path, error).string());
  }
  exported.key_file = to + "/cluster.key";
  exported.credentials_file = to + "/credentials.json";
  exported.source = arguments.map.empty() ? "file:" + to + "/map.json" : arguments.map;
  CHECK_OK(write_key(exported.key_file, exported.cluster, server.base().random));
  CHECK_OK(write_accounts(exported.credentials_file, arguments));
  TRY(map, give_to_cluster(server, arguments));
  exported.map = std::move(map);
  CHECK_OK(write_source(server, exported));
  CHECK_OK(write_cluster_json(to + "/cluster.json", exported, arguments.listen));
  return exported;
}

void tell_commands(const Exported& exported, const RingExportArguments& arguments) {
  std::string server = "penstock server --key " + exported.key_file + " --map " + exported.source +
                       " --listen " + arguments.listen;
  if (!arguments.host.empty()) server += " --host " + arguments.host;
  if (!arguments.zone.empty()) server += " --zone " + arguments.zone;
  for (const std::string& path : exported.paths) server += " " + path;
  std::fprintf(stdout,
               "The store is a cluster of one server now, %zu volumes, epoch %llu. Start it with:\n"
               "  %s\n"
               "  penstock gateway --key %s --map %s --credentials %s\n",
               exported.paths.size(), static_cast<unsigned long long>(exported.map->epoch.value),
               server.c_str(), exported.key_file.c_str(), exported.source.c_str(),
               exported.credentials_file.c_str());
}

}  // namespace

int export_ring(const RingExportArguments& arguments) {
  ::umask(0077);  // keys and accounts are for nobody else on this machine
  const auto shares =
      share_process({}, std::max<std::size_t>(arguments.directories.size(), kVolumesAtLeast), {});
  if (!shares) return tell_failure_of(shares.error());
  ServerStack server(options_of(arguments, *shares));
  const auto exported = export_store(arguments, server);
  if (server.close(kPatience) > 0) {
    std::fprintf(stderr, "penstock: a disk hangs; nothing waits for it any more\n");
    ::_exit(kExitStuck);
  }
  if (!exported) return tell_failure_of(exported.error());
  tell_commands(*exported, arguments);
  return 0;
}

}  // namespace penstock
