// Composition root: the only file that sees every room. Reads the command line, wires the parts of
// a process, waits for its end.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdio>
#include <future>
#include <iostream>
#include <thread>

#include "gateway/admin_server.h"
#include "gateway/http_server.h"
#include "gateway/local_arguments.h"
#include "gateway/ring_command.h"
#include "gateway/s3_service.h"
#include "penstock/log.h"
#include "server/background/background.h"
#include "server/background/background_metrics.h"
#include "server/node/control_socket.h"
#include "server/node/io_threads.h"
#include "server/node/local_store.h"
#include "server/node/ring_metrics.h"

// What jemalloc reads at its start: memory that was free for a second goes back to the system.
extern "C" const char* const malloc_conf;
extern "C" const char* const malloc_conf = "dirty_decay_ms:1000,muzzy_decay_ms:0";

namespace penstock {
namespace {

constexpr std::chrono::seconds kDrain{25};  // how long running requests may take after SIGTERM
constexpr std::chrono::milliseconds kWatchEvery{200};  // for volumes that were taken away
constexpr std::size_t kIdleBufferBytes = 24 * limits::kMiB;

// Everything of a running `penstock local`, in the order in which it is made; taken down in the
// reverse one.
class LocalProcess {
 public:
  LocalProcess(const LocalConfig& config, unsigned threads)
      : config_(config),
        buffers_(kIdleBufferBytes),
        budget_(config.memory_budget_bytes),
        io_(threads) {}

  ~LocalProcess() {
    stopping_.store(true);
    if (control_) control_->stop();
    if (watcher_.joinable()) watcher_.join();
    io_.stop();  // no coroutine runs while the parts go
  }

  Result<> open(const LocalArguments& arguments) {
    // Before anything is formatted.
    if (!arguments.credentials_file.empty()) {
      CHECK_OK(read_accounts(arguments.credentials_file));
    }
    LocalStoreOptions options;
    options.directories = arguments.directories;
    options.volumes = arguments.volumes;
    options.boot_id = boot_id();
    options.volume.space.reserve_bytes = config_.free_space_min_bytes;
    if (config_.free_space_min_bytes == 0) options.volume.space.reserve_fraction = 0;
    options.volume.space.ballast_bytes = config_.ballast_bytes;
    options.volume.fragments.lease = std::chrono::seconds(config_.removal.lease);
    options.volume.fragments.reader_pin = std::chrono::seconds(2 * config_.removal.hint_delay);
    if (config_.has_policy) options.policy = std::make_unique<LayoutPolicy>(config_.policy);
    directories_ = arguments.directories;
    TRY(store, LocalStore::open(std::move(options), io_, clock_, random_, buffers_));
    store_ = std::move(store);
    TRY(credentials, load_credentials(arguments, store_->map()->cluster, random_));
    credentials_ = std::make_unique<CredentialStore>(std::move(credentials));
    return wire();
  }

  Result<> serve(const Endpoint& s3, const Endpoint& admin) {
    CHECK_OK(on_io([this, s3] { return http_->listen(s3.address, s3.port); }));
    CHECK_OK(on_io([this, admin] { return admin_->listen(admin.address, admin.port); }));
    watcher_ = std::thread([this] { watch(); });
    boost::asio::post(io_.at(0), [this] { background_->start(io_.at(0).get_executor()); });
    boost::asio::post(io_.at(0), [this] { replacement_->start(io_.at(0).get_executor()); });
    CHECK_OK(control_->start(directories_));
    const auto states = store_->states();
    const auto open = std::count_if(states.begin(), states.end(), [](const auto& volume) {
      return volume.status.state == VolumeStatus::State::open;
    });
    const auto policy = store_->map()->policy;
    const auto lost = states.size() - static_cast<std::size_t>(open);
    const std::size_t survived = policy.losses_survived();
    log_event(LogLevel::info, "store_ready",
              {{"listen", s3.address + ":" + std::to_string(http_->port())},
               {"admin", admin.address + ":" + std::to_string(admin_->port())},
               {"volumes_open", std::to_string(open) + "/" + std::to_string(states.size())},
               {"layout", std::to_string(policy.k) + "+" + std::to_string(policy.m)},
               {"survives_losses", std::to_string(survived - std::min(survived, lost))}});
    return Result<>{};
  }

  void stop() {
    log_event(LogLevel::info, "stopping", {{"reason", "signal"}});
    stopping_.store(true);
    const auto drained = on_io_task(http_->stop(kDrain));
    if (!drained)
      log_event(LogLevel::warn, "requests_cut_off", {{"reason", drained.error().context}});
    const auto closed = on_io_task(admin_->stop(std::chrono::seconds(1)));
    if (!closed) log_event(LogLevel::warn, "admin_cut_off", {{"reason", closed.error().context}});
    control_->stop();
    on_io_void(end_background());
    on_io_void(proposer_->drain());
    if (watcher_.joinable()) watcher_.join();
    store_.reset();  // closes the volumes; their last answers still reach the I/O threads
    io_.stop();
    log_event(LogLevel::info, "stopped");
  }

 private:
  Result<> wire() {
    TRY(ring, Ring::build(*store_->map()));
    auto connect = [this](const MapVolume& volume) { return store_->client(volume.id); };
    membership_ = std::make_unique<Membership>(store_->map(), std::move(ring), store_->clients(),
                                               clock_, connect);
    proposer_ = std::make_unique<Proposer>(*membership_, clock_, random_);
    index_ = std::make_unique<Index>(*membership_, *proposer_, clock_, random_);
    blobs_ = std::make_unique<BlobContext>(
        BlobContext{*membership_, clock_, random_, buffers_, budget_, codecs_});
    const RemovalConfig& removal = config_.removal;
    blobs_->lease_fresh = Duration(std::chrono::seconds(removal.lease)) / 2;
    blobs_->reader_pin_every = Duration(std::chrono::seconds(removal.hint_delay)) / 3;
    objects_ = std::make_unique<Objects>(*index_, *proposer_, *blobs_, random_, clock_,
                                         std::chrono::seconds(removal.hint_delay));
    background_ = std::make_unique<BackgroundWork>(background_context());
    auto on_map = [this](std::shared_ptr<const ClusterMap> map) { store_->take_map(map); };
    replacement_ = std::make_unique<VolumeReplacement>(
        ReplacementParts{*membership_, *proposer_, *blobs_, clock_, {}, on_map});
    ring_control_ = std::make_unique<RingControl>(*store_, *replacement_, io_);
    control_ = std::make_unique<ControlSocket>(
        [this](const std::string& question) { return ring_control_->answer(question); });
    gateway_ = std::make_unique<Gateway>(Gateway{*objects_, clock_, random_, config_.gateway});
    Authenticator::Options options{config_.gateway.region, config_.gateway.strict_region};
    authenticator_ = std::make_unique<Authenticator>(*credentials_, clock_, options);
    metrics_ =
        std::make_unique<Metrics>(S3Service::operation_names(), S3Service::error_code_names());
    // One thread: the more streams it finds waiting, the more lanes it fills.
    md5_worker_ = std::make_unique<ThreadWorker>("md5", 1);
    md5_ = std::make_unique<Md5Service>(*md5_worker_, 1);
    service_ = std::make_unique<S3Service>(*gateway_, *authenticator_, *metrics_, md5_.get());
    HttpOptions http_options;
    http_options.connections_max = config_.connections_max;
    http_options.sendfile = config_.sendfile;
    std::vector<boost::asio::io_context*> contexts;
    for (std::size_t i = 0; i < io_.size(); ++i) contexts.push_back(&io_.at(i));
    http_ = std::make_unique<HttpServer>(contexts, *service_, clock_, random_, http_options);
    auto readiness = [this] { return tell_readiness(); };
    admin_ = std::make_unique<AdminServer>(io_.at(0), *metrics_, readiness, clock_, random_);
    add_collectors();
    add_collectors_of_background(*metrics_, [this] { return background_->status(); });
    add_collectors_of_ring(*metrics_, *ring_control_);
    return Result<>{};
  }

  BackgroundContext background_context() {
    const RemovalConfig& removal = config_.removal;
    BackgroundContext context{*membership_, *proposer_, *objects_, clock_, {}, {}};
    BackgroundOptions& options = context.options;
    options.hint_delay = std::chrono::seconds(removal.hint_delay);
    options.takeover = options.hint_delay;
    options.hints_every = std::chrono::seconds(removal.hints_every);
    options.sweep_every = std::chrono::seconds(removal.sweep_every);
    options.uploads_every = std::chrono::seconds(removal.uploads_every);
    options.upload_expiry = std::chrono::seconds(removal.upload_expiry);
    options.upload_kept = std::chrono::seconds(removal.upload_kept);
    options.tombstones_every = std::chrono::seconds(removal.tombstones_every);
    options.tombstone_wait = std::chrono::seconds(removal.tombstone_wait);
    options.buckets_every = std::chrono::seconds(removal.buckets_every);
    options.steps_per_second = static_cast<std::uint32_t>(removal.steps_per_second);
    return context;
  }

  Awaitable<void> end_background() {
    replacement_->stop();
    background_->stop();
    co_await replacement_->finish();
    co_await background_->finish();
  }

  void add_collectors() {
    using Sample = Metrics::Sample;
    using Samples = std::vector<Sample>;
    const auto gauge = Metrics::Kind::gauge;
    metrics_->add_collector(
        gauge, "penstock_http_connections", "Open connections of the S3 port.", [this] {
          return Samples{Sample{{}, static_cast<double>(http_->connection_count())}};
        });
    metrics_->add_collector(
        Metrics::Kind::counter, "penstock_http_refused_total",
        "Connections and requests that the S3 port ended before they were requests, by reason.",
        [this] {
          Samples samples;
          for (std::size_t i = 0; i < kHttpRefusalNames.size(); ++i) {
            const auto count = http_->refusals().count_of(static_cast<HttpRefusal>(i));
            samples.push_back(Sample{{{"reason", std::string(kHttpRefusalNames[i])}},
                                     static_cast<double>(count)});
          }
          return samples;
        });
    metrics_->add_collector(
        gauge, "penstock_memory_budget_bytes", "Memory that request bodies may use, and do.",
        [this] {
          return Samples{Sample{{{"kind", "used"}}, static_cast<double>(budget_.used_bytes())},
                         Sample{{{"kind", "limit"}}, static_cast<double>(budget_.limit_bytes())}};
        });
    metrics_->add_collector(gauge, "penstock_volumes", "Volumes of the cluster by state.", [this] {
      std::map<std::string, double> counts{{"open", 0}, {"closed", 0}, {"missing", 0}, {"full", 0}};
      for (const auto& volume : store_->states()) {
        counts[std::string(state_name(volume.status.state))] += 1;
        if (volume.status.full) counts["full"] += 1;
      }
      Samples samples;
      for (const auto& [state, count] : counts)
        samples.push_back(Sample{{{"state", state}}, count});
      return samples;
    });
    metrics_->add_collector(gauge, "penstock_volume_free_bytes", "Free space by volume.", [this] {
      Samples samples;
      for (const auto& volume : store_->states()) {
        samples.push_back(
            Sample{{{"volume", volume.name}}, static_cast<double>(volume.status.free_bytes)});
      }
      return samples;
    });
    metrics_->add_collector(
        gauge, "penstock_volume_fragment_bytes", "Data in fragments by volume.", [this] {
          Samples samples;
          for (const auto& volume : store_->states()) {
            samples.push_back(Sample{{{"volume", volume.name}},
                                     static_cast<double>(volume.status.fragment_bytes)});
          }
          return samples;
        });
    metrics_->add_collector(
        gauge, "penstock_register_stragglers", "Accepts under way past their majority.", [this] {
          return Samples{Sample{{}, static_cast<double>(proposer_->stragglers())}};
        });
  }

  Readiness tell_readiness() {
    Readiness readiness;
    readiness.ready = store_->ready_for_writes();
    readiness.text = readiness.ready ? "ready\n" : "not ready: too few volumes for writes\n";
    readiness.text += ring_control_->line();
    for (const auto& volume : store_->states()) {
      readiness.text += volume.name + " ";
      readiness.text += state_name(volume.status.state);
      if (volume.status.full) readiness.text += " full";
      if (!volume.status.reason.empty()) readiness.text += " (" + volume.status.reason + ")";
      readiness.text += "\n";
    }
    return readiness;
  }

  void watch() {
    auto next = clock_.boot() + kWatchEvery;
    while (!stopping_.load()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (clock_.boot() < next) continue;
      store_->watch();
      next = clock_.boot() + kWatchEvery;
    }
  }

  // Run something on the first I/O thread and wait for it.
  template <class Function>
  Result<> on_io(Function function) {
    std::promise<Result<>> promise;
    boost::asio::post(io_.at(0), [&promise, &function] { promise.set_value(function()); });
    return promise.get_future().get();
  }
  Result<> on_io_task(Task<> task) {
    std::promise<Result<>> promise;
    boost::asio::co_spawn(io_.at(0), std::move(task),
                          [&promise](std::exception_ptr error, Result<> result) {
                            if (error) result = fail(Errc::aborted, "a coroutine threw");
                            promise.set_value(std::move(result));
                          });
    return promise.get_future().get();
  }
  void on_io_void(Awaitable<void> task) {
    std::promise<void> promise;
    boost::asio::co_spawn(io_.at(0), std::move(task),
                          [&promise](std::exception_ptr) { promise.set_value(); });
    promise.get_future().get();
  }

  LocalConfig config_;
  std::vector<std::string> directories_;
  RealClock clock_;
  SystemRandom random_;
  BufferPool buffers_;
  MemoryBudget budget_;
  CodecCache codecs_;
  IoThreads io_;
  std::unique_ptr<LocalStore> store_;
  std::unique_ptr<CredentialStore> credentials_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<Proposer> proposer_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<BlobContext> blobs_;
  std::unique_ptr<Objects> objects_;
  std::unique_ptr<BackgroundWork> background_;
  std::unique_ptr<VolumeReplacement> replacement_;
  std::unique_ptr<RingControl> ring_control_;
  std::unique_ptr<ControlSocket> control_;
  std::unique_ptr<Gateway> gateway_;
  std::unique_ptr<Authenticator> authenticator_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Md5Service> md5_;
  std::unique_ptr<ThreadWorker> md5_worker_;  // goes first: it runs what is queued
  std::unique_ptr<S3Service> service_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<AdminServer> admin_;
  std::atomic<bool> stopping_{false};
  std::thread watcher_;
};

int complain(const Error& error) {
  std::fprintf(stderr, "penstock: %s\n", error.context.c_str());
  return 1;
}

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    log_event(LogLevel::warn, "file_limit_low", {{"limit", std::to_string(limit.rlim_cur)}});
  }
}

int run_local(const LocalArguments& arguments) {
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
  auto s3 = parse_endpoint(arguments.listen, "--listen");
  if (!s3) return complain(s3.error());
  Endpoint admin{s3->address, static_cast<std::uint16_t>(s3->port == 0 ? 0 : s3->port + 1)};
  if (!arguments.admin_listen.empty()) {
    auto given = parse_endpoint(arguments.admin_listen, "--admin-listen");
    if (!given) return complain(given.error());
    admin = *given;
  }
  // Blocked before any thread starts, so that only sigwait() below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);  // sendfile(2) has no MSG_NOSIGNAL
  raise_file_limit();
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  LocalProcess process(*config, config->io_threads == 0 ? cores : config->io_threads);
  if (const auto opened = process.open(arguments); !opened) return complain(opened.error());
  if (const auto serving = process.serve(*s3, admin); !serving) return complain(serving.error());
  int received = 0;
  sigwait(&signals, &received);
  process.stop();
  return 0;
}

}  // namespace
}  // namespace penstock

namespace {

struct RingArguments {
  std::string directory;
  std::string volume;
  std::string with;
  bool wait = false;
  bool json = false;
};
struct RingCommands {
  CLI::App* status;
  CLI::App* replace;
};

RingCommands add_ring_commands(CLI::App& app, RingArguments& arguments) {
  auto* ring = app.add_subcommand("ring", "The volumes of a running store: show, replace.");
  ring->require_subcommand(1);
  auto* status = ring->add_subcommand(
      "status",
      "Which volumes there are, what is lost, how far a replacement has come.\n"
      "Asks the running `penstock local DIR` through DIR/control.sock.");
  auto* replace = ring->add_subcommand(
      "replace",
      "Replaces a volume, lost or still working, by a new one while the store is in use.\n"
      "NEWDIR must be empty: it becomes a volume with an identity of its own; a wiped disk never\n"
      "takes its old one up again. Rows and fragments are made anew from the other volumes, or\n"
      "copied while the old one can be read. A restart in between goes on with it.\n"
      "Example: penstock ring replace /data --volume v2 --with /mnt/new-disk --wait");
  for (auto* command : {status, replace}) {
    command->add_option("DIR", arguments.directory, "The directory `penstock local` was given")
        ->required();
  }
  status->add_flag("--json", arguments.json, "The whole answer as JSON");
  replace->add_option("--volume", arguments.volume, "Name, id or directory of the old volume")
      ->required();
  replace->add_option("--with", arguments.with, "Directory of the new volume, on a new disk")
      ->required();
  replace->add_flag("--wait", arguments.wait, "Until the store is whole, showing the progress");
  return {status, replace};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Penstock: an S3-compatible object store tuned for training.\n"
      "Start one with `penstock local DIR`, then point any S3 client at http://127.0.0.1:9000.");
  app.set_version_flag("--version", "penstock 0.1.0");
  app.require_subcommand(1);
  app.footer("Each subcommand has its own --help.");
  penstock::LocalArguments arguments;
  auto* local = app.add_subcommand(
      "local",
      "A whole store in one process: S3 on one port, erasure-coded volumes under DIR.\n"
      "The first start formats DIR and prints the root credentials; later ones find everything "
      "again.\n"
      "Any p volumes may be lost (2 of 6): reads and writes go on. SIGTERM ends it in order.");
  local
      ->add_option(
          "DIR", arguments.directories,
          "One directory for all volumes, or one per volume when several are given (one per disk)")
      ->required();
  local->add_option("--listen", arguments.listen, "ADDRESS:PORT of the S3 endpoint")
      ->capture_default_str();
  local->add_option("--admin-listen", arguments.admin_listen,
                    "ADDRESS:PORT of /healthz, /readyz and /metrics; default: the S3 port + 1");
  local->add_option(
      "--credentials", arguments.credentials_file,
      "JSON file of accounts: "
      "[{\"access_key\",\"secret_key\",\"account_id\",\"display_name\",\"email\"}, ...].\n"
      "PENSTOCK_ACCESS_KEY and PENSTOCK_SECRET_KEY in the environment replace the root pair");
  local->add_option("--config", arguments.config_file,
                    "JSON file of settings; see conf/local.json");
  local
      ->add_option("--volumes", arguments.volumes,
                   "Volumes under a single DIR when it is formatted: 1, or 3 and more")
      ->capture_default_str()
      ->check(CLI::Range(1u, 64u));
  RingArguments ring_arguments;
  const RingCommands ring = add_ring_commands(app, ring_arguments);
  CLI11_PARSE(app, argc, argv);
  if (local->parsed()) return penstock::run_local(arguments);
  if (ring.status->parsed()) {
    return penstock::show_ring_status(ring_arguments.directory, ring_arguments.json);
  }
  return penstock::replace_ring_volume(ring_arguments.directory, ring_arguments.volume,
                                       ring_arguments.with, ring_arguments.wait);
}
