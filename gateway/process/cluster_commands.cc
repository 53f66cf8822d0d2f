#include "gateway/process/cluster_commands.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <utility>

#include "gateway/process/peers.h"
#include "gateway/process/stack_options.h"
#include "penstock/wait_on.h"
#include "server/membership/map_install.h"

namespace penstock {
namespace {

constexpr std::uint32_t kGroups = 256;
constexpr Duration kServersPatience = std::chrono::seconds(10);
constexpr Duration kInstallPatience = std::chrono::seconds(30);
constexpr Duration kLook = std::chrono::milliseconds(20);

int complain_of(const Error& error) {
  std::cerr << "penstock: " << error.context << "\n";
  return kExitFailed;
}

// Old or new, never between; durable.
Result<> write_map_file(const std::string& path, const ClusterMap& map) {
  const std::string temporary = path + ".tmp";
  {
    std::ofstream file(temporary, std::ios::trunc);
    file << map.to_json() << "\n";
    file.flush();
    if (!file) return fail(Errc::io, "cannot write \"" + temporary + "\"");
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) return fail(Errc::io, "cannot write \"" + path + "\": " + error.message());
  ::sync();
  return {};
}

// A process that calls servers and is none itself.
class Admin {
 public:
  explicit Admin(const ClusterKey& key) : key_(key), base_(ProcessOptions{}) {
    peers_ = make_peers(base_, terms_of(key, PeerRole::admin, "penstock ring"), {});
  }
  ~Admin() {
    peers_->stop();
    base_.io.stop();
  }
  template <class T>
  Result<T> run(Task<T> task) {
    return wait_on(base_.io.at(0), std::move(task), "a command");
  }

  Task<ClusterMap> make(std::vector<std::string> addresses);
  Task<Installed> install(std::shared_ptr<const ClusterMap> map);

 private:
  Task<std::vector<VolumeId>> candidates(const std::string& address);

  const ClusterKey key_;
  ProcessBase base_;
  std::unique_ptr<RemoteServers> peers_;
};

Task<std::vector<VolumeId>> Admin::candidates(const std::string& address) {
  const auto server = peers_->server(address);
  const BootTime until = base_.clock.boot() + kServersPatience;
  while (!server->volumes() && base_.clock.boot() < until) {
    co_await base_.clock.sleep_until(base_.clock.boot() + kLook);
  }
  const auto volumes = server->volumes();
  if (!volumes) co_return fail(Errc::unavailable, server->status(VolumeId{}).reason);
  if (volumes->empty()) co_return fail(Errc::invalid, "server " + address + " has no volume");
  for (const VolumeId id : *volumes) {
    const auto volume = peers_->volume(id, address);
    CO_TRY(text, co_await volume->read_map(until));
    if (text->empty()) continue;
    co_return fail(Errc::invalid, "a volume of server " + address +
                                      " is named by a map already; `ring make` takes fresh "
                                      "volumes only");
  }
  co_return *volumes;
}

Task<ClusterMap> Admin::make(std::vector<std::string> addresses) {
  std::vector<MapVolume> volumes;
  std::set<VolumeId> seen;
  for (const std::string& address : addresses) {
    CO_TRY(ids, co_await candidates(address));
    for (const VolumeId id : ids) {
      if (!seen.insert(id).second) {
        co_return fail(Errc::invalid, "two addresses lead to one server: " + address);
      }
      MapVolume volume;
      volume.id = id;
      volume.name = "v" + std::to_string(volumes.size());
      volume.address = address;
      volume.host = address;
      volumes.push_back(std::move(volume));
    }
  }
  co_return make_map(key_.cluster, std::move(volumes), kGroups);
}

Task<Installed> Admin::install(std::shared_ptr<const ClusterMap> map) {
  std::vector<std::shared_ptr<VolumeClient>> clients;
  const BootTime until = base_.clock.boot() + kInstallPatience;
  for (const MapVolume& entry : map->volumes) {
    const auto volume = peers_->volume(entry.id, entry.address);
    const auto is_open = [&volume] { return volume->status().state == VolumeStatus::State::open; };
    while (!is_open() && base_.clock.boot() < until) {
      co_await base_.clock.sleep_until(base_.clock.boot() + kLook);
    }
    clients.push_back(volume);
  }
  co_return co_await install_map(map, std::move(clients), base_.clock,
                                 base_.clock.boot() + kInstallPatience);
}

Result<std::shared_ptr<const ClusterMap>> made_map(Admin& admin, const ClusterKey& key,
                                                   const RingMakeArguments& arguments) {
  if (std::filesystem::exists(arguments.map_file)) {
    return read_map_file(arguments.map_file, key.cluster);
  }
  if (arguments.servers.empty()) return fail(Errc::invalid, "say which: --server ADDRESS:PORT");
  TRY(map, admin.run(admin.make(arguments.servers)));
  CHECK_OK(write_map_file(arguments.map_file, map));
  return std::make_shared<const ClusterMap>(std::move(map));
}

}  // namespace

int make_key_file(const std::string& path) {
  SystemRandom random;
  const ClusterKey key = make_cluster_key(random);
  if (const auto written = write_cluster_key(path, key); !written) {
    return complain_of(written.error());
  }
  std::cout << "Cluster " << cluster_text(key.cluster) << ": its key is in " << path
            << ". Give the file to each of its processes, and to nobody else.\n";
  return 0;
}

int make_ring(const RingMakeArguments& arguments) {
  const auto key = read_cluster_key(arguments.key_file);
  if (!key) return complain_of(key.error());
  Admin admin(*key);
  const auto map = made_map(admin, *key, arguments);
  if (!map) return complain_of(map.error());
  const auto installed = admin.run(admin.install(*map));
  if (!installed) return complain_of(installed.error());
  for (const auto& [id, error] : installed->failed) {
    const MapVolume* entry = (*map)->find(id);
    std::cerr << "penstock: " << (entry ? entry->name : "a volume") << ": " << error.context
              << "\n";
  }
  if (!installed->reached) {
    return complain_of(fail(Errc::unavailable,
                            "too few volumes have taken the map: see above, then say the same "
                            "again"));
  }
  const LayoutPolicy& policy = (*map)->policy;
  std::cout << "Map of " << (*map)->volumes.size() << " volumes in " << arguments.map_file
            << ", taken by " << installed->adopted.size() << " of them. Layout " << policy.k << "+"
            << policy.m << ": any " << policy.losses_survived() << " may be lost.\n";
  return 0;
}

}  // namespace penstock
