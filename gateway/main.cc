// Composition root: reads the command line, starts the process that it asks for, waits for its end.
// The processes themselves are in gateway/process/.
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "gateway/bench/bench_run.h"
#include "gateway/command_line.h"
#include "gateway/descriptor_shares.h"
#include "gateway/local_arguments.h"
#include "gateway/process/cluster_commands.h"
#include "gateway/process/gateway_process.h"
#include "gateway/process/local_process.h"
#include "gateway/process/server_process.h"
#include "gateway/process/start_watch.h"
#include "gateway/process_shares.h"
#include "gateway/ring_command.h"
#include "gateway/role_settings.h"
#include "penstock/caught.h"
#include "penstock/log.h"

// What jemalloc reads at its start: memory that was free for a quarter of a second goes back to the
// system, also that of threads which do nothing any more: a thread of jemalloc's own sees to it.
// After a second it was 16 MiB more in uploads, and no less processor time.
extern "C" const char* const malloc_conf;
extern "C" const char* const malloc_conf =
    "dirty_decay_ms:250,muzzy_decay_ms:0,background_thread:true,max_background_threads:1";

namespace penstock {
namespace {

int complain(const Error& error) {
  pollfd reader{STDERR_FILENO, POLLOUT, 0};
  constexpr int kPatienceMs = 500;
  // Nobody reads, and this would wait for him.
  if (!flush_log() || ::poll(&reader, 1, kPatienceMs) == 0) return kExitFailed;
  std::fprintf(stderr, "penstock: %s\n", error.context.c_str());
  return kExitFailed;
}

// What every process is told before it starts a thread.
struct Prepared {
  LocalConfig config;
  Endpoints endpoints;
};
// `arguments` get what the settings say of them. Errors: invalid; not_found.
template <class Arguments>
Result<Prepared> prepare(Arguments& arguments) {
  ::umask(0077);  // what the volumes hold is for nobody else on this machine
  TRY(config, read_config(arguments.config_file));
  CHECK_OK(take_settings(config.role, arguments));
  const std::map<std::string, LogLevel> levels{{"debug", LogLevel::debug},
                                               {"info", LogLevel::info},
                                               {"warn", LogLevel::warn},
                                               {"error", LogLevel::error}};
  const auto level = levels.find(config.log_level);
  if (level == levels.end()) {
    return fail(Errc::invalid, "log_level wants debug, info, warn or error");
  }
  set_log_level(level->second);
  TRY(endpoints, read_endpoints(arguments.listen.value(), arguments.admin_listen));
  return Prepared{std::move(config), std::move(endpoints)};
}

// Blocked before any thread starts, so that only sigwait() sees them.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);  // splice(2) has no MSG_NOSIGNAL
  signal(SIGXFSZ, SIG_IGN);  // a file at `ulimit -f` is an error of that write
  write_log_on_a_thread();
  return signals;
}

// Opens the process, serves with it, and stops it when a signal says so.
template <class Process>
int run_process(Process& process, const sigset_t& signals, const Endpoints& endpoints) {
  {
    const StartWatch watch(Process::kStartWaitsFor);
    if (const auto opened = process.open(); !opened) return complain(opened.error());
    if (const auto serving = process.serve(endpoints.s3, endpoints.admin); !serving) {
      return complain(serving.error());
    }
  }
  int received = 0;
  while (sigwait(&signals, &received) == 0 && received == SIGHUP) process.hang_up();
  process.stop();
  return 0;
}

int run_local(LocalArguments arguments) {
  auto prepared = prepare(arguments);
  if (!prepared) return complain(prepared.error());
  auto& [config, endpoints] = *prepared;
  if (const auto enough = check_file_size_limit(); !enough) return complain(enough.error());
  const sigset_t signals = block_signals();
  const std::size_t volumes = LocalProcess::count_volumes(arguments);
  const auto shares = share_process(config, volumes, {config.connections_max});
  if (!shares) return complain(shares.error());
  arguments.shares = *shares;
  config.connections_max = shares->memory.connections;
  LocalProcess process(config, arguments);
  return run_process(process, signals, endpoints);
}

int run_server(ServerArguments arguments) {
  const auto prepared = prepare(arguments);
  if (!prepared) return complain(prepared.error());
  auto trust = read_trust(arguments.trust, PeerRole::server);
  if (!trust) return complain(trust.error());
  if (const auto enough = check_file_size_limit(); !enough) return complain(enough.error());
  const sigset_t signals = block_signals();
  const auto shares = share_process(prepared->config, arguments.directories.size(),
                                    {limits::kPeerConnectionsMax, limits::kPeerConnectionBytes});
  if (!shares) return complain(shares.error());
  arguments.shares = *shares;
  ServerProcess process(prepared->config, arguments, std::move(*trust));
  return run_process(process, signals, prepared->endpoints);
}

int run_gateway(GatewayArguments arguments) {
  auto prepared = prepare(arguments);
  if (!prepared) return complain(prepared.error());
  auto& [config, endpoints] = *prepared;
  auto trust = read_trust(arguments.trust, PeerRole::gateway);
  if (!trust) return complain(trust.error());
  const sigset_t signals = block_signals();
  const auto shares = share_process(config, 0, {config.connections_max});
  if (!shares) return complain(shares.error());
  arguments.shares = *shares;
  config.connections_max = shares->memory.connections;
  GatewayProcess process(config, arguments, std::move(*trust));
  return run_process(process, signals, endpoints);
}

int run_command(const CommandLine& line) {
  const RingArguments& ring = line.ring;
  switch (line.command) {
    case CommandLine::Command::local:
      return run_local(line.local);
    case CommandLine::Command::server:
      return run_server(line.server);
    case CommandLine::Command::gateway:
      return run_gateway(line.gateway);
    case CommandLine::Command::ring_make:
      return make_ring(line.ring_make);
    case CommandLine::Command::ring_add:
      return add_to_ring(line.ring_add);
    case CommandLine::Command::ring_show:
      return show_ring(line.ring_show);
    case CommandLine::Command::ring_what_if:
      return show_what_if(line.ring_what_if);
    case CommandLine::Command::ring_status:
      if (!ring.directory.empty()) return show_ring_status(ring.directory, line.ring_look.json);
      return show_cluster_status(line.ring_look);
    case CommandLine::Command::ring_restore:
      return restore_ring(line.ring_restore);
    case CommandLine::Command::ring_export:
      return export_ring(line.ring_export);
    case CommandLine::Command::ring_replace:
      return replace_ring_volume(ring.directory, ring.volume, ring.with, ring.wait);
    case CommandLine::Command::admin_keygen:
      return make_key_file(line.key_file);
    case CommandLine::Command::admin_status:
      return show_admin_status(line.admin_status);
    case CommandLine::Command::bench:
      return run_bench(line.bench);
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
    flush_log();
    std::abort();
  });
  try {
    const ParsedCommandLine parsed = parse_command_line(argc, argv);
    const int code = parsed.command ? run_command(*parsed.command) : parsed.exit_code;
    flush_log();
    return code;
  } catch (...) {
    return complain(error_of_exception("main"));
  }
}
