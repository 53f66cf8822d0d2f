// Composition root: the only file that sees every room. Reads the command line, wires the parts of
// a process, waits for its end.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdio>
#include <fstream>
#include <future>
#include <iostream>
#include <sstream>
#include <thread>

#include "gateway/admin_server.h"
#include "gateway/credentials.h"
#include "gateway/http_server.h"
#include "gateway/local_config.h"
#include "gateway/s3_service.h"
#include "penstock/log.h"
#include "server/background/background.h"
#include "server/background/background_metrics.h"
#include "server/node/io_threads.h"
#include "server/node/local_store.h"

// What jemalloc reads at its start: memory that was free for a second goes back to the system.
extern "C" const char* const malloc_conf;
extern "C" const char* const malloc_conf = "dirty_decay_ms:1000,muzzy_decay_ms:0";

namespace penstock {
namespace {

constexpr std::chrono::seconds kDrain{25};  // how long running requests may take after SIGTERM
constexpr std::chrono::milliseconds kWatchEvery{200};  // for volumes that were taken away
constexpr std::size_t kIdleBufferBytes = 24 * limits::kMiB;

struct LocalArguments {
  std::string listen = "127.0.0.1:9000";
  std::string admin_listen;
  std::string credentials_file;
  std::string config_file;
  unsigned volumes = 6;
  std::vector<std::string> directories;
};

struct Endpoint {
  std::string address;
  std::uint16_t port = 0;
};

Result<Endpoint> parse_endpoint(const std::string& text, const char* option) {
  const auto colon = text.rfind(':');
  std::string address = text.substr(0, colon);
  if (address.size() > 2 && address.front() == '[' && address.back() == ']') {
    address = address.substr(1, address.size() - 2);
  }
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool digits = !port.empty() && port.find_first_not_of("0123456789") == std::string::npos;
  if (address.empty() || !digits || port.size() > 5 || std::stoul(port) > 65535) {
    return fail(Errc::invalid, std::string(option) + " wants ADDRESS:PORT, not \"" + text + "\"");
  }
  return Endpoint{address, static_cast<std::uint16_t>(std::stoul(port))};
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) return fail(Errc::not_found, "cannot read \"" + path + "\"");
  return text.str();
}

Result<LocalConfig> read_config(const std::string& path) {
  if (path.empty()) return LocalConfig{};
  TRY(text, read_file(path));
  auto config = parse_local_config(text);
  if (!config) return fail(Errc::invalid, path + ": " + config.error().context);
  return config;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string boot_id() {
  auto text = read_file("/proc/sys/kernel/random/boot_id");
  return text ? text->substr(0, text->find('\n')) : "";
}

// The root pair lies in every directory, so that the loss of one disk does not lock the owner out.
Result<Account> root_account(const std::vector<std::string>& directories, Random& random) {
  for (const auto& directory : directories) {
    auto found = read_root_credentials(directory);
    if (found) return found;
    if (found.error().code != Errc::not_found) return found;
  }
  const Account made = make_root_account(random);
  for (const auto& directory : directories) CHECK_OK(write_root_credentials(directory, made));
  std::printf(
      "New root credentials, shown this once and kept in %s:\n  access key  %s\n  secret key  %s\n",
      root_credentials_path(directories.front()).c_str(), made.access_key.c_str(),
      made.secret_key.c_str());
  std::fflush(stdout);
  return made;
}

Result<CredentialStore> load_credentials(const LocalArguments& arguments, Random& random) {
  TRY(kept, root_account(arguments.directories, random));
  TRY(root,
      override_root(kept, environment("PENSTOCK_ACCESS_KEY"), environment("PENSTOCK_SECRET_KEY")));
  std::vector<Account> accounts{root};
  if (!arguments.credentials_file.empty()) {
    TRY(more, read_accounts(arguments.credentials_file));
    accounts.insert(accounts.end(), more.begin(), more.end());
  }
  return CredentialStore::make(std::move(accounts));
}

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
    if (watcher_.joinable()) watcher_.join();
    io_.stop();  // no coroutine runs while the parts go
  }

  Result<> open(const LocalArguments& arguments) {
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
    TRY(store, LocalStore::open(std::move(options), io_, clock_, random_, buffers_));
    store_ = std::move(store);
    TRY(credentials, load_credentials(arguments, random_));
    credentials_ = std::make_unique<CredentialStore>(std::move(credentials));
    return wire();
  }

  Result<> serve(const Endpoint& s3, const Endpoint& admin) {
    CHECK_OK(on_io([this, s3] { return http_->listen(s3.address, s3.port); }));
    CHECK_OK(on_io([this, admin] { return admin_->listen(admin.address, admin.port); }));
    watcher_ = std::thread([this] { watch(); });
    boost::asio::post(io_.at(0), [this] { background_->start(io_.at(0).get_executor()); });
    const auto states = store_->states();
    const auto open = std::count_if(states.begin(), states.end(), [](const auto& volume) {
      return volume.status.state == VolumeStatus::State::open;
    });
    const auto policy = store_->map()->policy;
    log_event(LogLevel::info, "store_ready",
              {{"listen", s3.address + ":" + std::to_string(http_->port())},
               {"admin", admin.address + ":" + std::to_string(admin_->port())},
               {"volumes_open", std::to_string(open) + "/" + std::to_string(states.size())},
               {"layout", std::to_string(policy.k) + "+" + std::to_string(policy.m)},
               {"survives_losses", std::to_string(policy.losses_survived())}});
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
    membership_ =
        std::make_unique<Membership>(store_->map(), std::move(ring), store_->clients(), clock_);
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
    return Result<>{};
  }

  BackgroundContext background_context() {
    const RemovalConfig& removal = config_.removal;
    BackgroundContext context{*membership_, *proposer_, *objects_, clock_, {}, {}};
    for (const auto& volume : store_->clients()) context.local.push_back(volume->id());
    BackgroundOptions& options = context.options;
    options.hint_delay = std::chrono::seconds(removal.hint_delay);
    options.takeover = options.hint_delay;
    options.hints_every = std::chrono::seconds(removal.hints_every);
    options.sweep_every = std::chrono::seconds(removal.sweep_every);
    options.uploads_every = std::chrono::seconds(removal.uploads_every);
    options.upload_expiry = std::chrono::seconds(removal.upload_expiry);
    options.upload_kept = std::chrono::seconds(removal.upload_kept);
    options.steps_per_second = static_cast<std::uint32_t>(removal.steps_per_second);
    return context;
  }

  Awaitable<void> end_background() {
    background_->stop();
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
        counts[state_name(volume.status.state)] += 1;
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

  static std::string state_name(VolumeStatus::State state) {
    switch (state) {
      case VolumeStatus::State::open:
        return "open";
      case VolumeStatus::State::closed:
        return "closed";
      case VolumeStatus::State::missing:
        return "missing";
    }
    return "?";
  }

  Readiness tell_readiness() {
    Readiness readiness;
    readiness.ready = store_->ready_for_writes();
    readiness.text = readiness.ready ? "ready\n" : "not ready: too few volumes for writes\n";
    for (const auto& volume : store_->states()) {
      readiness.text += volume.name + " " + state_name(volume.status.state);
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
  CLI11_PARSE(app, argc, argv);
  if (local->parsed()) return penstock::run_local(arguments);
  return 0;
}
