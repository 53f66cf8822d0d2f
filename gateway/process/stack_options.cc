#include "gateway/process/stack_options.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace penstock {

ProcessOptions options_of_process(const LocalConfig& config, const MemoryShares& memory) {
  ProcessOptions options;
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  options.io_threads = config.io_threads == 0 ? cores : config.io_threads;
  options.memory_budget_bytes = memory.bodies;
  options.idle_buffer_bytes = std::min(options.idle_buffer_bytes, memory.bodies / 8);
  return options;
}

ServerOptions options_of_server(const LocalConfig& config, const ProcessShares& shares,
                                RowReaders readers) {
  ServerOptions options;
  options.process = options_of_process(config, shares.memory);
  options.store.boot_id = boot_id();
  if (config.has_policy) options.store.policy = std::make_unique<LayoutPolicy>(config.policy);
  VolumeOptions& volume = options.store.volume;
  volume.read_on_caller = config.read_on_caller;
  volume.disk_call_max = std::chrono::seconds(config.disk_call_max_seconds);
  volume.space.reserve_bytes = config.free_space_min_bytes;
  volume.space.reserve_fraction = static_cast<double>(config.free_space_min_percent) / 100;
  volume.space.ballast_bytes = config.ballast_bytes;
  volume.fragments.lease = config.removal.lease;
  volume.fragments.reader_pin = 2 * config.removal.hint_delay;
  spend_memory(shares.memory.per_volume, readers, volume);
  const std::size_t files = shares.descriptors.per_volume / 2;
  volume.fragments.read_handles = files;
  volume.database.open_files_max =
      std::min(static_cast<int>(files), volume.database.open_files_max);
  return options;
}

GatewayOptions options_of_gateway(const LocalConfig& config, const std::string& accounts_file) {
  GatewayOptions options;
  options.gateway = config.gateway;
  options.signature_v2 = config.signature_v2;
  options.http.connections_max = config.connections_max;
  options.http.connections_per_address = config.connections_per_address_max;
  options.http.reader_pause = std::chrono::seconds(config.reader_pause_seconds);
  options.http.sendfile = config.sendfile;
  options.accounts_file = accounts_file;
  return options;
}

Result<std::unique_ptr<AccessLog>> open_access_log(const LocalConfig& config,
                                                   const std::string& asked) {
  const std::string& target = asked.empty() ? config.access_log : asked;
  if (target.empty()) return std::unique_ptr<AccessLog>();
  return AccessLog::open(target);
}

std::vector<boost::asio::io_context*> contexts_of(IoThreads& io) {
  std::vector<boost::asio::io_context*> contexts;
  for (std::size_t i = 0; i < io.size(); ++i) contexts.push_back(&io.at(i));
  return contexts;
}

}  // namespace penstock
