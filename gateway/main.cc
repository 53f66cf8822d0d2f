// Composition root: the only file that sees every room. Reads the command line, wires the stacks of
// a process, waits for its end.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "gateway/command_line.h"
#include "gateway/descriptor_shares.h"
#include "gateway/gateway_stack.h"
#include "gateway/local_arguments.h"
#include "gateway/ring_command.h"
#include "penstock/caught.h"
#include "penstock/log.h"
#include "server/node/server_stack.h"
#include "server/node/server_work.h"
#include "server/node/volume_metrics.h"

// What jemalloc reads at its start: memory that was free for a second goes back to the system, also
// that of threads which do nothing any more: a thread of jemalloc's own sees to it.
extern "C" const char* const malloc_conf;
extern "C" const char* const malloc_conf =
    "dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true,max_background_threads:1";

namespace penstock {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitStuck = 3;  // threads stuck in a call of a disk were left behind
constexpr std::chrono::seconds kStopReserve{1};  // for what follows the volumes

// ---- what each stack is told of the command line and the configuration

ServerOptions options_of_server(const LocalConfig& config, const LocalArguments& arguments) {
  ServerOptions options;
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  options.process.io_threads = config.io_threads == 0 ? cores : config.io_threads;
  options.process.memory_budget_bytes = config.memory_budget_bytes;
  options.store.directories = arguments.directories;
  options.store.volumes = arguments.volumes;
  options.store.format = arguments.format;
  options.store.boot_id = boot_id();
  if (config.has_policy) options.store.policy = std::make_unique<LayoutPolicy>(config.policy);
  VolumeOptions& volume = options.store.volume;
  volume.read_on_caller = config.read_on_caller;
  volume.disk_call_max = std::chrono::seconds(config.disk_call_max_seconds);
  volume.space.reserve_bytes = config.free_space_min_bytes;
  if (config.free_space_min_bytes == 0) volume.space.reserve_fraction = 0;
  volume.space.ballast_bytes = config.ballast_bytes;
  volume.fragments.lease = config.removal.lease;
  volume.fragments.reader_pin = 2 * config.removal.hint_delay;
  volume.fragments.read_handles = arguments.descriptors.per_volume / 2;
  volume.database.open_files_max = static_cast<int>(std::min<std::size_t>(
      arguments.descriptors.per_volume / 2, DatabaseOptions().open_files_max));
  return options;
}

GatewayOptions options_of_gateway(const LocalConfig& config, const LocalArguments& arguments) {
  GatewayOptions options;
  options.gateway = config.gateway;
  options.signature_v2 = config.signature_v2;
  options.http.connections_max = config.connections_max;
  options.http.connections_per_address = config.connections_per_address_max;
  options.http.reader_pause = std::chrono::seconds(config.reader_pause_seconds);
  options.http.sendfile = config.sendfile;
  options.accounts_file = arguments.credentials_file;
  return options;
}

Result<std::unique_ptr<AccessLog>> open_access_log(const LocalConfig& config,
                                                   const LocalArguments& arguments) {
  const bool given = !arguments.access_log.empty();
  const std::string& target = given ? arguments.access_log : config.access_log;
  if (target.empty()) return std::unique_ptr<AccessLog>();
  return AccessLog::open(target);
}

// `penstock local`: volumes and gateway in one process, the gateway with direct clients.
class LocalProcess {
 public:
  LocalProcess(const LocalConfig& config, const LocalArguments& arguments)
      : config_(config),
        arguments_(arguments),
        disk_call_max_(config.disk_call_max_seconds),
        server_(options_of_server(config, arguments)) {}

  ~LocalProcess() {
    if (gateway_) gateway_->end_soon();
    if (work_) work_->stop_listening();
    server_.end_watch();
    server_.base().io.stop();  // no coroutine runs while the parts go
    // After a start that failed: a disk that hangs keeps the process no longer than it may.
    if (server_.close(disk_call_max_) > 0) ::_exit(kExitFailed);
  }

  Result<> open() {
    // Before anything is formatted.
    if (!arguments_.credentials_file.empty()) {
      CHECK_OK(read_accounts(arguments_.credentials_file));
    }
    TRY(access_log, open_access_log(config_, arguments_));
    CHECK_OK(server_.start());
    const auto cluster = server_.volumes().map()->cluster;
    TRY(accounts, load_credentials(arguments_, root_places(), cluster, server_.base().random));
    CHECK_OK(make_gateway(std::move(accounts), std::move(access_log)));
    work_ = std::make_unique<ServerWork>(ServerWorkParts{server_.volumes(), server_.new_volume(),
                                                         gateway_->objects(), server_.base().io,
                                                         config_.removal});
    add_collectors_of_volumes(gateway_->metrics(), server_.volumes());
    work_->add_collectors(gateway_->metrics());
    return {};
  }

  Result<> serve(const Endpoint& s3, const Endpoint& admin) {
    CHECK_OK(gateway_->listen(s3, admin));
    server_.begin_watch();
    work_->begin();
    gateway_->begin();
    CHECK_OK(work_->listen(server_.volumes().answering(server_.directories().paths())));
    tell_ready(s3, admin);
    return {};
  }

  void hang_up() { gateway_->hang_up(); }

  // Bounded: whatever is not done by limits::kStopMax is cut off by stop_late(). A volume whose
  // threads are stuck in the kernel is left behind; all else ends in order.
  void stop() {
    log_event(LogLevel::info, "stopping", {{"reason", "signal"}});
    const auto late = std::chrono::steady_clock::now() + limits::kStopMax;
    gateway_->end_soon();
    server_.end_watch_soon();
    std::thread([this] { stop_late(); }).detach();
    gateway_->stop_requests();
    stop_step_.store("the admin port");
    gateway_->stop_admin();
    stop_step_.store("the control socket");
    work_->stop_listening();
    stop_step_.store("background work");
    work_->finish();
    stop_step_.store("register calls under way");
    gateway_->drain();
    stop_step_.store("volumes");
    server_.end_watch();
    gateway_->stop_log();
    const std::size_t stalled = server_.close(patience_until(late));
    server_.base().io.stop();
    if (stalled == 0) {
      log_event(LogLevel::info, "stopped");
      stop_step_.store(nullptr);
      return;
    }
    log_event(LogLevel::warn, "stopped",
              {{"volumes_left_behind", std::to_string(stalled)},
               {"reason", "they were not closed in time: disk calls of theirs are under way"}});
    ::_exit(kExitStuck);
  }

 private:
  Result<> make_gateway(LoadedAccounts accounts, std::unique_ptr<AccessLog> access_log) {
    ProcessBase& base = server_.base();
    VolumeSet& volumes = server_.volumes();
    auto connect = [&volumes](const MapVolume& volume) { return volumes.client(volume.id); };
    std::vector<boost::asio::io_context*> contexts;
    for (std::size_t i = 0; i < base.io.size(); ++i) contexts.push_back(&base.io.at(i));
    GatewayParts parts{std::move(contexts),
                       ObjectStackParts{volumes.map(), volumes.clients(), connect, base.clock,
                                        base.random, base.buffers, base.budget, base.codecs,
                                        config_.removal.lease, config_.removal.hint_delay},
                       std::move(accounts), std::move(access_log),
                       [this] { return tell_readiness(); }};
    TRY(gateway, GatewayStack::make(options_of_gateway(config_, arguments_), std::move(parts)));
    gateway_ = std::move(gateway);
    return {};
  }

  // A directory whose volume is not open may be a mount point without its disk: it gets no copy.
  RootPlaces root_places() {
    const auto& directories = server_.directories().paths();
    RootPlaces places{directories, server_.volumes().answering(directories), {}, {}};
    places.patience = disk_call_max_;
    if (directories.size() == 1) return places;
    for (const auto& volume : server_.volumes().states()) {
      if (volume.status.state != VolumeStatus::State::open) continue;
      places.keeping.push_back(volume.path);
    }
    return places;
  }

  void tell_ready(const Endpoint& s3, const Endpoint& admin) {
    const auto states = server_.volumes().states();
    const auto open = std::count_if(states.begin(), states.end(), [](const auto& volume) {
      return volume.status.state == VolumeStatus::State::open;
    });
    const auto policy = server_.volumes().map()->policy;
    const auto lost = states.size() - static_cast<std::size_t>(open);
    const std::size_t survived = policy.losses_survived();
    log_event(LogLevel::info, "store_ready",
              {{"listen", endpoint_text(s3.address, gateway_->s3_port())},
               {"admin", endpoint_text(admin.address, gateway_->admin_port())},
               {"volumes_open", std::to_string(open) + "/" + std::to_string(states.size())},
               {"connections_max", std::to_string(config_.connections_max)},
               {"layout", std::to_string(policy.k) + "+" + std::to_string(policy.m)},
               {"survives_losses", std::to_string(survived - std::min(survived, lost))}});
  }

  Readiness tell_readiness() {
    Readiness readiness;
    readiness.ready = server_.volumes().ready_for_writes();
    readiness.text = readiness.ready ? "ready\n" : "not ready: too few volumes for writes\n";
    readiness.text += work_->ring().line();
    const Membership& membership = gateway_->objects().membership();
    for (const auto& volume : server_.volumes().states()) {
      readiness.text += volume.name + " ";
      readiness.text += state_name(volume.status.state);
      if (volume.status.full) readiness.text += " full";
      const bool open = volume.status.state == VolumeStatus::State::open;
      if (open && membership.suspect(volume.id)) readiness.text += " suspect";
      if (!volume.status.reason.empty()) readiness.text += " (" + volume.status.reason + ")";
      readiness.text += "\n";
    }
    return readiness;
  }

  // For the volumes: their last answers still reach the I/O threads.
  Duration patience_until(std::chrono::steady_clock::time_point late) const {
    const auto left = late - std::chrono::steady_clock::now() - kStopReserve;
    return std::clamp<Duration>(std::chrono::duration_cast<Duration>(left), kStopReserve,
                                disk_call_max_);
  }

  // The last resort of stop(), on a thread that waits for nothing else.
  void stop_late() {
    std::this_thread::sleep_for(limits::kStopMax);
    const char* const step = stop_step_.load();
    if (step == nullptr) return;  // it has ended, and the process does
    log_event(LogLevel::error, "stop_cut_off",
              {{"after_s", std::to_string(std::chrono::seconds(limits::kStopMax).count())},
               {"waited_for", step}});
    ::_exit(kExitStuck);
  }

  const LocalConfig config_;
  const LocalArguments arguments_;
  const std::chrono::seconds disk_call_max_;
  // Each uses those above it.
  ServerStack server_;
  std::unique_ptr<GatewayStack> gateway_;
  std::unique_ptr<ServerWork> work_;
  std::atomic<const char*> stop_step_{"requests"};
};

int complain(const Error& error) {
  std::fprintf(stderr, "penstock: %s\n", error.context.c_str());
  return kExitFailed;
}

int run_local(LocalArguments arguments) {
  ::umask(0077);  // what the volumes hold is for nobody else on this machine
  auto config = read_config(arguments.config_file);
  if (!config) return complain(config.error());
  const std::map<std::string, LogLevel> levels{{"debug", LogLevel::debug},
                                               {"info", LogLevel::info},
                                               {"warn", LogLevel::warn},
                                               {"error", LogLevel::error}};
  const auto level = levels.find(config->log_level);
  if (level == levels.end()) {
    return complain(fail(Errc::invalid, "log_level wants debug, info, warn or error"));
  }
  set_log_level(level->second);
  auto endpoints = read_endpoints(arguments);
  if (!endpoints) return complain(endpoints.error());
  // Blocked before any thread starts, so that only sigwait() below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);  // sendfile(2) has no MSG_NOSIGNAL
  const std::size_t volumes =
      arguments.directories.size() > 1 ? arguments.directories.size() : arguments.volumes;
  const auto shares = share_descriptors(raise_file_limit(), volumes, config->connections_max);
  if (!shares) return complain(shares.error());
  arguments.descriptors = *shares;
  config->connections_max = shares->connections;
  LocalProcess process(*config, arguments);
  if (const auto opened = process.open(); !opened) return complain(opened.error());
  if (const auto serving = process.serve(endpoints->s3, endpoints->admin); !serving) {
    return complain(serving.error());
  }
  int received = 0;
  while (sigwait(&signals, &received) == 0 && received == SIGHUP) process.hang_up();
  process.stop();
  return 0;
}

int run_command(const CommandLine& line) {
  const RingArguments& ring = line.ring;
  switch (line.command) {
    case CommandLine::Command::local:
      return run_local(line.local);
    case CommandLine::Command::ring_status:
      return show_ring_status(ring.directory, ring.json);
    case CommandLine::Command::ring_replace:
      return replace_ring_volume(ring.directory, ring.volume, ring.with, ring.wait);
  }
  return kUsageError;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  using namespace penstock;
  // What gets past all that catches tells at least what it was.
  std::set_terminate([] {
    report_exception("the end of the process");
    std::abort();
  });
  try {
    const ParsedCommandLine parsed = parse_command_line(argc, argv);
    return parsed.command ? run_command(*parsed.command) : parsed.exit_code;
  } catch (...) {
    return complain(error_of_exception("main"));
  }
}
