#include "gateway/command_line.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <iostream>

#include "gateway/address_option.h"
#include "gateway/bench_command_line.h"
#include "gateway/program_version.h"
#include "gateway/ring_command_line.h"
#include "gateway/role_settings.h"
#include "gateway/trust_options.h"

namespace penstock {
namespace {

CLI::App* add_local(CLI::App& app, LocalArguments& arguments) {
  auto* local = app.add_subcommand(
      "local",
      "A whole store in one process: S3 on one port, erasure-coded volumes under DIR.\n"
      "The first start makes a store below DIR and the root credentials; later ones find\n"
      "everything again. Several DIRs, one per disk, are formatted only with --format.\n"
      "Any p volumes may be lost (2 of 6): reads and writes go on. SIGTERM ends it in order,\n"
      "SIGHUP reads the accounts again and reopens the access log.\n"
      "Examples: penstock local /data\n"
      "          penstock local --format /mnt/d1 /mnt/d2 /mnt/d3 /mnt/d4 /mnt/d5 /mnt/d6");
  local->add_option(
      "DIR", arguments.directories,
      "One directory for all volumes, or one per volume when several are given (one per disk).\n"
      "Needed, unless the settings name them");
  local->add_flag("--format", arguments.format,
                  "Make a new store of several DIRs that are all empty. Give it once: without it\n"
                  "disks that are not mounted are never taken for a new store. It changes nothing\n"
                  "of a store that is there");
  local
      ->add_option("--listen", arguments.listen,
                   "ADDRESS:PORT of the S3 endpoint; :PORT is all IPv4 addresses, IPv6 stands in\n"
                   "brackets ([::1]:9000), port 0 is any free one (see store_ready in the log)")
      ->default_str("127.0.0.1:9000");
  local->add_option("--admin-listen", arguments.admin_listen,
                    "ADDRESS:PORT of /healthz, /readyz and /metrics; default: the S3 port + 1");
  local->add_option(
      "--credentials", arguments.credentials_file,
      "JSON file of accounts: "
      "[{\"access_key\",\"secret_key\",\"account_id\",\"display_name\",\"email\"}, ...].\n"
      "Only its owner may read it (chmod 600). It is read again when it changes, and on SIGHUP.\n"
      "PENSTOCK_ACCESS_KEY and PENSTOCK_SECRET_KEY in the environment replace the root pair");
  local->add_option(
      "--config", arguments.config_file,
      "JSON file of settings; see conf/local.json. What is given here counts first, then\n"
      "the environment (as named here), then that file");
  local->add_option("--access-log", arguments.access_log,
                    "Where to write one JSON line per request: stdout, or a file, which SIGHUP\n"
                    "opens anew; default: \"access_log\" of the configuration, else nowhere");
  local
      ->add_option("--volumes", arguments.volumes,
                   "Volumes under a single DIR when it is formatted: 1, or 3 and more")
      ->capture_default_str()
      ->check(CLI::Range(1u, 64u));
  return local;
}

// What several commands take.
void add_map(CLI::App& command, std::string& map, const std::string& meaning) {
  command.add_option(
      "--map", map,
      "Where the cluster's map is kept: etcd://HOST:PORT[,HOST:PORT...]/CLUSTER-ID, "
      "or a file\n(file:PATH, PATH). etcds://...?ca=FILE&cert=FILE&key=FILE: by TLS. " +
          meaning);
}
void add_admin_and_config(CLI::App& command, std::string& admin_listen, std::string& config_file) {
  command.add_option("--admin-listen", admin_listen,
                     "ADDRESS:PORT of /healthz, /readyz and /metrics; default: the port + 1");
  command.add_option("--config", config_file,
                     "JSON file of settings; see conf/" + command.get_name() +
                         ".json. What is given here counts first, then\n"
                         "the environment (as named here), then that file");
}

CLI::App* add_server(CLI::App& app, ServerArguments& arguments) {
  auto* server = app.add_subcommand(
      "server",
      "Serves volumes to the gateways of a cluster. Each DIR is one volume, on a disk of its own.\n"
      "With --format, empty DIRs become new volumes: candidates, until `penstock ring make` takes\n"
      "them into the cluster's map.\n"
      "SIGTERM ends it in order: it says that it leaves, and lets calls under way end. SIGHUP "
      "reads\n"
      "certificates again.\n"
      "Example: penstock server --key cluster.key --listen 10.0.0.1:9200 --format /mnt/d1 /mnt/d2");
  server->add_option("DIR", arguments.directories,
                     "Directories of volumes, one per disk. Needed, unless the settings name them");
  add_trust(*server, arguments.trust);
  server
      ->add_option("--listen", arguments.listen,
                   "ADDRESS:PORT for gateways and other servers; the cluster's map names it")
      ->default_str("127.0.0.1:9200");
  add_map(*server, arguments.map,
          "The server announces its volumes there, and brings them to the map that it holds");
  wants_reachable(server->add_option(
      "--address,--advertise", arguments.address,
      "ADDRESS:PORT at which others reach this server, if it is not what it listens on"));
  server->add_option(
      "--host", arguments.host,
      "The machine that it stands on, for placement: what is lost together. Servers\n"
      "with the same host are one failure domain; default: each server is its own");
  server->add_option(
      "--zone", arguments.zone,
      "The room, rack or power line that the machine stands at, if there are several:\n"
      "the pieces of an object are spread over zones first");
  wants_reachable(
      server->add_option(
          "--peers", arguments.peers,
          "ADDRESS:PORT of other servers, with commas between them. It tells them where\n"
          "its volumes are. Those of the map are told anyway: this is for when all of them\n"
          "have moved"))
      ->delimiter(',');
  add_admin_and_config(*server, arguments.admin_listen, arguments.config_file);
  server->add_flag(
      "--format", arguments.format,
      "Make new volumes of DIRs that are empty; changes nothing of those that are not");
  return server;
}

CLI::App* add_gateway(CLI::App& app, GatewayArguments& arguments) {
  auto* gateway = app.add_subcommand(
      "gateway",
      "Serves S3 on the volumes of a cluster. It keeps nothing on disk: run any number of them.\n"
      "SIGTERM ends it in order; SIGHUP reads accounts and certificates again and reopens the "
      "access\n"
      "log.\n"
      "Example: penstock gateway --key cluster.key --map map.json --credentials accounts.json");
  add_trust(*gateway, arguments.trust);
  add_map(*gateway, arguments.map, "A newer map is followed at once");
  wants_reachable(
      gateway->add_option(
          "--servers", arguments.servers,
          "ADDRESS:PORT,... of servers that are asked for the map: without --map, or while it "
          "cannot\nbe reached"))
      ->delimiter(',');
  gateway->add_option(
      "--credentials", arguments.credentials_file,
      "JSON file of accounts, the same for all gateways:\n"
      "[{\"access_key\",\"secret_key\",\"account_id\",\"display_name\",\"email\"}, ...].\n"
      "Only its owner may read it (chmod 600). It is read again when it changes. Needed");
  gateway->add_option("--listen", arguments.listen, "ADDRESS:PORT of the S3 endpoint")
      ->default_str("127.0.0.1:9000");
  add_admin_and_config(*gateway, arguments.admin_listen, arguments.config_file);
  gateway->add_option("--access-log", arguments.access_log,
                      "Where to write one JSON line per request: stdout, or a file, which SIGHUP\n"
                      "opens anew");
  return gateway;
}

// Each option with a value has a name in the environment, too: PENSTOCK_ADMIN_LISTEN for
// --admin-listen. Not flags: what is done once, as --format, must not lie in wait in a file.
void name_in_environment(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option->get_items_expected_max() == 0) continue;
    std::string name = "PENSTOCK_" + option->get_lnames().front();
    for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
    option->envname(name);
  }
}

std::string names_of(const CLI::App& app) {
  std::string names;
  for (const auto* command : app.get_subcommands({})) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return names;
}

// The first unknown word. The library would complain of missing options before it does of these.
// `path`: how far the command was understood.
std::optional<std::string> find_unknown(const CLI::App& app, int argc, const char* const* argv,
                                        std::string& path) {
  const CLI::App* here = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_commands = !here->get_subcommands({}).empty();
    if (word == "--") return std::nullopt;
    if (word.size() > 1 && word.front() == '-') {
      const auto equals = word.find('=');
      const CLI::Option* option = here->get_option_no_throw(word.substr(0, equals));
      if (option == nullptr) return "unknown option \"" + word.substr(0, equals) + "\"";
      if (equals == std::string::npos && option->get_items_expected_max() > 0) ++i;  // its value
      continue;
    }
    if (!has_commands) continue;  // a DIR
    const CLI::App* next = nullptr;
    for (const auto* command : here->get_subcommands({})) {
      if (command->check_name(word)) next = command;
    }
    if (next == nullptr) {
      return "there is no command \"" + word + "\"; there are: " + names_of(*here);
    }
    here = next;
    path += " " + word;
  }
  if (here->get_subcommands({}).empty()) return std::nullopt;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h" || word == "--version") return std::nullopt;
  }
  return "say what to do: " + names_of(*here);
}

int complain_of_use(const std::string& what, const std::string& path) {
  std::cerr << "penstock: " << what << "\nRun `" << path << " --help` to see what may be said.\n";
  return kUsageError;
}

// Is all said that is needed?
template <class Arguments>
Result<> said(Arguments arguments) {
  return take_settings(RoleSettings{}, arguments);
}

}  // namespace

ParsedCommandLine parse_command_line(int argc, const char* const* argv) {
  CLI::App app(
      "Penstock: an S3-compatible object store tuned for training.\n"
      "Start one with `penstock local DIR`, then point any S3 client at http://127.0.0.1:9000.");
  app.set_version_flag("--version", std::string("penstock ") + kProgramVersion);
  app.require_subcommand(1);
  app.footer("Each subcommand has its own --help.");
  CommandLine line;
  auto* const local = add_local(app, line.local);
  auto* const server = add_server(app, line.server);
  auto* const gateway = add_gateway(app, line.gateway);
  for (auto* command : {local, server, gateway}) name_in_environment(*command);
  CommandTable table{{local, CommandLine::Command::local},
                     {server, CommandLine::Command::server},
                     {gateway, CommandLine::Command::gateway}};
  add_ring_commands(app, line, table);
  add_admin_commands(app, line, table);
  table.emplace_back(add_bench(app, line.bench), CommandLine::Command::bench);
  std::string path = "penstock";
  if (const auto unknown = find_unknown(app, argc, argv, path)) {
    return {std::nullopt, complain_of_use(*unknown, path)};
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& told) {  // --help, --version
    return {std::nullopt, app.exit(told)};
  } catch (const CLI::ParseError& wrong) {
    return {std::nullopt, complain_of_use(wrong.what(), path)};
  }
  // What a settings file may still say is looked for when it has been read.
  for (const auto& missing :
       {local->parsed() && line.local.config_file.empty() ? said(line.local) : Result<>{},
        server->parsed() && line.server.config_file.empty() ? said(line.server) : Result<>{},
        gateway->parsed() && line.gateway.config_file.empty() ? said(line.gateway) : Result<>{}}) {
    if (!missing) return {std::nullopt, complain_of_use(missing.error().context, path)};
  }
  for (const auto& [command, means] : table) {
    if (command->parsed()) line.command = means;
  }
  return {std::move(line), 0};
}

}  // namespace penstock
