// Composition root: the only file that sees every room. Reads the command line, wires the parts of
// a process, waits for its end.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdio>
#include <future>
#include <thread>

#include "gateway/access_log.h"
#include "gateway/admin_server.h"
#include "gateway/auth/accounts_follower.h"
#include "gateway/command_line.h"
#include "gateway/descriptor_shares.h"
#include "gateway/http/http_metrics.h"
#include "gateway/http/http_server.h"
#include "gateway/local_arguments.h"
#include "gateway/log_metrics.h"
#include "gateway/ring_command.h"
#include "gateway/s3_service.h"
#include "penstock/caught.h"
#include "penstock/log.h"
#include "server/background/background.h"
#include "server/background/background_metrics.h"
#include "server/node/control_socket.h"
#include "server/node/io_threads.h"
#include "server/node/local_store.h"
#include "server/node/ring_metrics.h"
#include "server/node/volume_metrics.h"
#include "server/node/volume_notes.h"

// What jemalloc reads at its start: memory that was free for a second goes back to the system, also
// that of threads which do nothing any more: a thread of jemalloc's own sees to it.
extern "C" const char* const malloc_conf;
extern "C" const char* const malloc_conf =
    "dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true,max_background_threads:1";

namespace penstock {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitStuck = 3;  // threads stuck in a call of a disk were left behind
constexpr std::chrono::milliseconds kWatchEvery{200};  // for volumes that were taken away
constexpr std::chrono::seconds kStopReserve{1};  // for what follows the volumes
constexpr std::size_t kIdleBufferBytes = 24 * limits::kMiB;

// Everything of a running `penstock local`, in the order in which it is made; taken down in the
// reverse one.
class LocalProcess {
 public:
  LocalProcess(const LocalConfig& config, unsigned threads)
      : config_(config),
        buffers_(kIdleBufferBytes),
        budget_(config.memory_budget_bytes, MemoryBudget::floors_of(config.memory_budget_bytes)),
        io_(threads) {}

  ~LocalProcess() {
    stopping_.store(true);
    if (control_) control_->stop();
    if (watcher_.joinable()) watcher_.join();
    io_.stop();  // no coroutine runs while the parts go
    // After a start that failed: a disk that hangs keeps the process no longer than it may.
    if (store_ && store_->close(std::chrono::seconds(config_.disk_call_max_seconds)) > 0) {
      ::_exit(kExitFailed);
    }
  }

  Result<> open(const LocalArguments& arguments) {
    // Before anything is formatted.
    if (!arguments.credentials_file.empty()) {
      CHECK_OK(read_accounts(arguments.credentials_file));
    }
    CHECK_OK(open_access_log(arguments));
    LocalStoreOptions options;
    options.directories = arguments.directories;
    options.volumes = arguments.volumes;
    options.format = arguments.format;
    options.boot_id = boot_id();
    options.volume.read_on_caller = config_.read_on_caller;
    options.volume.disk_call_max = std::chrono::seconds(config_.disk_call_max_seconds);
    options.volume.space.reserve_bytes = config_.free_space_min_bytes;
    if (config_.free_space_min_bytes == 0) options.volume.space.reserve_fraction = 0;
    options.volume.space.ballast_bytes = config_.ballast_bytes;
    options.volume.fragments.lease = std::chrono::seconds(config_.removal.lease);
    options.volume.fragments.reader_pin = std::chrono::seconds(2 * config_.removal.hint_delay);
    options.volume.fragments.read_handles = arguments.descriptors.per_volume / 2;
    options.volume.database.open_files_max =
        static_cast<int>(std::min<std::size_t>(arguments.descriptors.per_volume / 2,
                                               DatabaseOptions().open_files_max));
    if (config_.has_policy) options.policy = std::make_unique<LayoutPolicy>(config_.policy);
    for (const auto& path : arguments.directories) directories_.push_back(plain_path(path));
    store_ = std::make_unique<LocalStore>(std::move(options), io_, clock_, random_, buffers_);
    CHECK_OK(store_->start());
    TRY(accounts,
        load_credentials(arguments, root_places(), store_->map()->cluster, random_));
    credentials_ = accounts.store;
    CHECK_OK(wire());
    follow_accounts(arguments, accounts.root);
    add_collectors_of_logs(*metrics_, service_->refused_logins(), *credentials_,
                           access_log_.get(), follower_.get());
    return Result<>{};
  }

  Result<> serve(const Endpoint& s3, const Endpoint& admin) {
    CHECK_OK(on_io([this, s3] { return http_->listen(s3.address, s3.port); }));
    CHECK_OK(on_io([this, admin] { return admin_->listen(admin.address, admin.port); }));
    watcher_ = std::thread([this] { watch(); });
    boost::asio::post(io_.at(0), [this] { background_->start(io_.at(0).get_executor()); });
    boost::asio::post(io_.at(0), [this] { replacement_->start(io_.at(0).get_executor()); });
    boost::asio::co_spawn(io_.at(0), probe(), boost::asio::detached);
    CHECK_OK(control_->start(store_->answering(directories_)));
    const auto states = store_->states();
    const auto open = std::count_if(states.begin(), states.end(), [](const auto& volume) {
      return volume.status.state == VolumeStatus::State::open;
    });
    const auto policy = store_->map()->policy;
    const auto lost = states.size() - static_cast<std::size_t>(open);
    const std::size_t survived = policy.losses_survived();
    log_event(LogLevel::info, "store_ready",
              {{"listen", endpoint_text(s3.address, http_->port())},
               {"admin", endpoint_text(admin.address, admin_->port())},
               {"volumes_open", std::to_string(open) + "/" + std::to_string(states.size())},
               {"connections_max", std::to_string(config_.connections_max)},
               {"layout", std::to_string(policy.k) + "+" + std::to_string(policy.m)},
               {"survives_losses", std::to_string(survived - std::min(survived, lost))}});
    return Result<>{};
  }

  // SIGHUP: accounts are read again, the access log is opened anew.
  void hang_up() {
    log_event(LogLevel::info, "hang_up");
    if (follower_) follower_->ask();
    if (follower_thread_) follower_thread_->poke();
    if (access_log_) access_log_->reopen();
  }

  // Bounded: whatever is not done by limits::kStopMax is cut off by stop_late(). A volume whose
  // threads are stuck in the kernel is left behind; all else ends in order.
  void stop() {
    log_event(LogLevel::info, "stopping", {{"reason", "signal"}});
    const auto late = std::chrono::steady_clock::now() + limits::kStopMax;
    stopping_.store(true);
    std::thread([this] { stop_late(); }).detach();
    const auto drained = on_io_task(http_->stop(limits::kStopDrain));
    if (!drained)
      log_event(LogLevel::warn, "requests_cut_off", {{"reason", drained.error().context}});
    stop_step_.store("the admin port");
    const auto closed = on_io_task(admin_->stop(std::chrono::seconds(1)));
    if (!closed) log_event(LogLevel::warn, "admin_cut_off", {{"reason", closed.error().context}});
    stop_step_.store("the control socket");
    control_->stop();
    stop_step_.store("background work");
    on_io_void(end_background());
    stop_step_.store("register calls under way");
    on_io_void(proposer_->drain());
    stop_step_.store("volumes");
    if (watcher_.joinable()) watcher_.join();
    if (access_log_) access_log_->stop();
    const std::size_t stalled = close_volumes(late);
    io_.stop();
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
  Result<> wire() {
    TRY(ring, Ring::build(*store_->map()));
    auto connect = [this](const MapVolume& volume) { return store_->client(volume.id); };
    membership_ = std::make_unique<Membership>(store_->map(), std::move(ring), store_->clients(),
                                               clock_, connect);
    proposer_ = std::make_unique<Proposer>(*membership_, clock_, random_);
    index_ = std::make_unique<Index>(*membership_, *proposer_, clock_, random_);
    const RemovalConfig& removal = config_.removal;
    const Duration hint_delay = std::chrono::seconds(removal.hint_delay);
    const BlobOptions graces{Duration(std::chrono::seconds(removal.lease)) / 2, hint_delay / 3};
    blobs_ = std::make_unique<Blobs>(*membership_, clock_, random_, buffers_, budget_, codecs_,
                                     graces);
    objects_ = std::make_unique<Objects>(*proposer_, *blobs_, clock_, hint_delay);
    multipart_ = std::make_unique<Multipart>(*index_, *proposer_, *blobs_, random_, clock_,
                                             hint_delay);
    background_ = std::make_unique<BackgroundWork>(background_context());
    auto on_map = [this](std::shared_ptr<const ClusterMap> map) { store_->take_map(map); };
    replacement_ = std::make_unique<VolumeReplacement>(
        ReplacementParts{*membership_, *proposer_, *blobs_, clock_, {}, on_map});
    ring_control_ = std::make_unique<RingControl>(*store_, *replacement_, io_);
    control_ = std::make_unique<ControlSocket>(
        [this](const std::string& question) { return ring_control_->answer(question); });
    gateway_ = std::make_unique<Gateway>(Gateway{*index_, *blobs_, *objects_, *multipart_, budget_,
                                                 buffers_, clock_, random_, config_.gateway});
    Authenticator::Options options{config_.gateway.region, config_.gateway.strict_region,
                                   config_.signature_v2};
    authenticator_ = std::make_shared<Authenticator>(*credentials_, clock_, options);
    metrics_ =
        std::make_unique<Metrics>(S3Service::operation_names(), S3Service::error_code_names());
    // One thread: the more streams it finds waiting, the more lanes it fills.
    md5_worker_ = std::make_unique<ThreadWorker>("md5", 1);
    md5_ = std::make_unique<Md5Service>(*md5_worker_, 1);
    service_ = std::make_unique<S3Service>(*gateway_, *authenticator_, *metrics_, md5_.get(),
                                           access_log_.get());
    HttpOptions http_options;
    http_options.connections_max = config_.connections_max;
    http_options.connections_per_address = config_.connections_per_address_max;
    http_options.reader_pause = std::chrono::seconds(config_.reader_pause_seconds);
    http_options.sendfile = config_.sendfile;
    http_options.memory = &budget_;
    std::vector<boost::asio::io_context*> contexts;
    for (std::size_t i = 0; i < io_.size(); ++i) contexts.push_back(&io_.at(i));
    http_ = std::make_unique<HttpServer>(contexts, *service_, clock_, random_, http_options);
    auto readiness = [this] { return tell_readiness(); };
    admin_ = std::make_unique<AdminServer>(io_.at(0), *metrics_, readiness, clock_, random_);
    add_collectors_of_http(*metrics_, *http_);
    add_collectors_of_memory(*metrics_, budget_);
    add_collectors_of_volumes(*metrics_, *store_);
    add_collectors_of_registers(*metrics_, *proposer_);
    add_collectors_of_background(*metrics_, [this] { return background_->status(); });
    add_collectors_of_ring(*metrics_, *ring_control_);
    return Result<>{};
  }

  // A directory whose volume is not open may be a mount point without its disk: it gets no copy.
  RootPlaces root_places() const {
    RootPlaces places{directories_, store_->answering(directories_), {}, {}};
    places.patience = std::chrono::seconds(config_.disk_call_max_seconds);
    if (directories_.size() == 1) return places;
    for (const auto& volume : store_->states()) {
      if (volume.status.state != VolumeStatus::State::open) continue;
      places.keeping.push_back(volume.path);
    }
    return places;
  }

  Result<> open_access_log(const LocalArguments& arguments) {
    const bool given = !arguments.access_log.empty();
    const std::string& target = given ? arguments.access_log : config_.access_log;
    if (target.empty()) return Result<>{};
    TRY(access_log, AccessLog::open(target));
    access_log_ = std::move(access_log);
    return Result<>{};
  }

  // What the thread touches it shares: a file system that hangs may keep it.
  void follow_accounts(const LocalArguments& arguments, const Account& root) {
    if (arguments.credentials_file.empty()) return;
    auto forget = [authenticator = authenticator_] { authenticator->forget_signing_keys(); };
    follower_ = std::make_shared<AccountsFollower>(arguments.credentials_file, root, credentials_,
                                                   std::move(forget));
    auto look = [follower = follower_] { follower->look(false); };
    follower_thread_ = std::make_unique<SideThread>("accounts", AccountsFollower::kLookEvery,
                                                    std::move(look));
  }

  BackgroundContext background_context() {
    const RemovalConfig& removal = config_.removal;
    BackgroundContext context{*membership_, *proposer_, *index_, *blobs_,
                              *objects_,    clock_,     {},      {}};
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

  // Their last answers still reach the I/O threads. Returns how many are left behind; the others
  // have been closed by then.
  std::size_t close_volumes(std::chrono::steady_clock::time_point late) {
    const auto left = late - std::chrono::steady_clock::now() - kStopReserve;
    const auto most = std::chrono::seconds(config_.disk_call_max_seconds);
    const auto patience =
        std::clamp<Duration>(std::chrono::duration_cast<Duration>(left), kStopReserve, most);
    const std::size_t unclosed = store_->close(patience);
    if (unclosed == 0) store_.reset();
    return unclosed;
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

  // Suspects are asked again though nobody needs them.
  Awaitable<void> probe() {
    while (!stopping_.load()) {
      membership_->probe_suspects(io_.at(0).get_executor());
      const BootTime next = clock_.boot() + Duration(limits::kProbeEvery);
      co_await clock_.sleep_until(next);
    }
  }

  Awaitable<void> end_background() {
    replacement_->stop();
    background_->stop();
    co_await replacement_->finish();
    co_await background_->finish();
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
      const bool open = volume.status.state == VolumeStatus::State::open;
      if (open && membership_->suspect(volume.id)) readiness.text += " suspect";
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
      try {
        store_->watch();
        service_->refused_logins().tell_left_out();
      } catch (...) {
        report_exception("the watch over volumes");
      }
      next = clock_.boot() + kWatchEvery;
    }
  }

  // Run something on the first I/O thread and wait for it.
  template <class Function>
  Result<> on_io(Function function) {
    std::promise<Result<>> promise;
    boost::asio::post(io_.at(0), [&promise, &function] {
      try {
        promise.set_value(function());
      } catch (...) {
        promise.set_value(error_of_exception("start"));
      }
    });
    return promise.get_future().get();
  }
  Result<> on_io_task(Task<> task) {
    std::promise<Result<>> promise;
    boost::asio::co_spawn(io_.at(0), std::move(task),
                          [&promise](std::exception_ptr error, Result<> result) {
                            if (error) result = error_of_exception("end", error);
                            promise.set_value(std::move(result));
                          });
    return promise.get_future().get();
  }
  void on_io_void(Awaitable<void> task) {
    std::promise<void> promise;
    boost::asio::co_spawn(io_.at(0), std::move(task),
                          [&promise](std::exception_ptr error) {
                            if (error) report_exception("end", error);
                            promise.set_value();
                          });
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
  std::shared_ptr<CredentialStore> credentials_;
  std::unique_ptr<AccessLog> access_log_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<Proposer> proposer_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<Blobs> blobs_;
  std::unique_ptr<Objects> objects_;
  std::unique_ptr<Multipart> multipart_;
  std::unique_ptr<BackgroundWork> background_;
  std::unique_ptr<VolumeReplacement> replacement_;
  std::unique_ptr<RingControl> ring_control_;
  std::unique_ptr<ControlSocket> control_;
  std::unique_ptr<Gateway> gateway_;
  std::shared_ptr<Authenticator> authenticator_;
  std::shared_ptr<AccountsFollower> follower_;
  std::unique_ptr<SideThread> follower_thread_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Md5Service> md5_;
  std::unique_ptr<ThreadWorker> md5_worker_;  // goes first: it runs what is queued
  std::unique_ptr<S3Service> service_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<AdminServer> admin_;
  std::atomic<bool> stopping_{false};
  std::atomic<const char*> stop_step_{"requests"};
  std::thread watcher_;
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
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  LocalProcess process(*config, config->io_threads == 0 ? cores : config->io_threads);
  if (const auto opened = process.open(arguments); !opened) return complain(opened.error());
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
    case CommandLine::Command::local: return run_local(line.local);
    case CommandLine::Command::ring_status: return show_ring_status(ring.directory, ring.json);
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
