#include "gateway/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>

namespace penstock {
namespace {

struct Subcommands {
  CLI::App* local;
  CLI::App* server;
  CLI::App* gateway;
  CLI::App* ring_make;
  CLI::App* admin_keygen;
  CLI::App* ring_status;
  CLI::App* ring_replace;
};

CLI::App* add_local(CLI::App& app, LocalArguments& arguments) {
  auto* local = app.add_subcommand(
      "local",
      "A whole store in one process: S3 on one port, erasure-coded volumes under DIR.\n"
      "The first start formats an empty DIR and makes the root credentials; later ones find\n"
      "everything again. Several DIRs, one per disk, are formatted only with --format.\n"
      "Any p volumes may be lost (2 of 6): reads and writes go on. SIGTERM ends it in order,\n"
      "SIGHUP reads the accounts again and reopens the access log.\n"
      "Examples: penstock local /data\n"
      "          penstock local --format /mnt/d1 /mnt/d2 /mnt/d3 /mnt/d4 /mnt/d5 /mnt/d6");
  local
      ->add_option(
          "DIR", arguments.directories,
          "One directory for all volumes, or one per volume when several are given (one per disk)")
      ->required();
  local->add_flag("--format", arguments.format,
                  "Make a new store of several DIRs that are all empty. Give it once: without it\n"
                  "disks that are not mounted are never taken for a new store. It changes nothing\n"
                  "of a store that is there");
  local
      ->add_option("--listen", arguments.listen,
                   "ADDRESS:PORT of the S3 endpoint; :PORT is all IPv4 addresses, IPv6 stands in\n"
                   "brackets ([::1]:9000), port 0 is any free one (see store_ready in the log)")
      ->capture_default_str();
  local->add_option("--admin-listen", arguments.admin_listen,
                    "ADDRESS:PORT of /healthz, /readyz and /metrics; default: the S3 port + 1");
  local->add_option(
      "--credentials", arguments.credentials_file,
      "JSON file of accounts: "
      "[{\"access_key\",\"secret_key\",\"account_id\",\"display_name\",\"email\"}, ...].\n"
      "Only its owner may read it (chmod 600). It is read again when it changes, and on SIGHUP.\n"
      "PENSTOCK_ACCESS_KEY and PENSTOCK_SECRET_KEY in the environment replace the root pair");
  local->add_option("--config", arguments.config_file,
                    "JSON file of settings; see conf/local.json");
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
void add_key(CLI::App& command, std::string& key_file) {
  command
      .add_option(
          "--key", key_file,
          "The file that `penstock admin keygen` made: the cluster's id and its secret.\n"
          "All processes of a cluster have the same; only its owner may read it (chmod 600)")
      ->required();
}
void add_admin_and_config(CLI::App& command, std::string& admin_listen, std::string& config_file) {
  command.add_option("--admin-listen", admin_listen,
                     "ADDRESS:PORT of /healthz, /readyz and /metrics; default: the port + 1");
  command.add_option("--config", config_file, "JSON file of settings; see conf/local.json");
}

CLI::App* add_server(CLI::App& app, ServerArguments& arguments) {
  auto* server = app.add_subcommand(
      "server",
      "Serves volumes to the gateways of a cluster. Each DIR is one volume, on a disk of its own.\n"
      "With --format, empty DIRs become new volumes: candidates, until `penstock ring make` takes\n"
      "them into the cluster's map.\n"
      "SIGTERM ends it in order: it says that it leaves, and lets calls under way end.\n"
      "Example: penstock server --key cluster.key --listen 10.0.0.1:9200 --format /mnt/d1 /mnt/d2");
  server->add_option("DIR", arguments.directories, "Directories of volumes, one per disk")
      ->required();
  add_key(*server, arguments.key_file);
  server
      ->add_option("--listen", arguments.listen,
                   "ADDRESS:PORT for gateways and other servers; the cluster's map names it")
      ->capture_default_str();
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
      "SIGTERM ends it in order, SIGHUP reads the accounts again and reopens the access log.\n"
      "Example: penstock gateway --key cluster.key --map map.json --credentials accounts.json");
  add_key(*gateway, arguments.key_file);
  gateway
      ->add_option("--map", arguments.map_file,
                   "The file that `penstock ring make` wrote. Newer maps are learned from the\n"
                   "volumes")
      ->required();
  gateway
      ->add_option(
          "--credentials", arguments.credentials_file,
          "JSON file of accounts, the same for all gateways:\n"
          "[{\"access_key\",\"secret_key\",\"account_id\",\"display_name\",\"email\"}, ...].\n"
          "Only its owner may read it (chmod 600). It is read again when it changes")
      ->required();
  gateway->add_option("--listen", arguments.listen, "ADDRESS:PORT of the S3 endpoint")
      ->capture_default_str();
  add_admin_and_config(*gateway, arguments.admin_listen, arguments.config_file);
  gateway->add_option("--access-log", arguments.access_log,
                      "Where to write one JSON line per request: stdout, or a file, which SIGHUP\n"
                      "opens anew");
  return gateway;
}

CLI::App* add_ring_make(CLI::App& ring, RingMakeArguments& arguments) {
  auto* make = ring.add_subcommand(
      "make",
      "Makes the map of a new cluster: takes the fresh volumes of the servers into it, writes it\n"
      "to the file, and has it installed at the volumes. Of three servers or more each is a "
      "failure\n"
      "domain, of fewer each volume.\n"
      "Was it cut off: say it again. A file that is there is installed as it is.\n"
      "Example: penstock ring make --key cluster.key --map map.json --server 10.0.0.1:9200 ...");
  add_key(*make, arguments.key_file);
  make->add_option("--map", arguments.map_file, "Where the map is written")->required();
  make->add_option("--server", arguments.servers, "ADDRESS:PORT of a server; give each of them");
  return make;
}

CLI::App* add_keygen(CLI::App& app, std::string& key_file) {
  auto* admin = app.add_subcommand("admin", "Looks after a cluster.");
  admin->require_subcommand(1);
  auto* keygen = admin->add_subcommand(
      "keygen", "Makes the id and the secret of a new cluster, in a file that is not there yet.");
  keygen->add_option("FILE", key_file, "Where they are written (mode 0600)")->required();
  return keygen;
}

void add_ring(CLI::App& app, CommandLine& line, Subcommands& commands) {
  RingArguments& arguments = line.ring;
  auto* ring = app.add_subcommand("ring", "The volumes of a store: make a map, show, replace.");
  ring->require_subcommand(1);
  commands.ring_make = add_ring_make(*ring, line.ring_make);
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
  commands.ring_status = status;
  commands.ring_replace = replace;
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

}  // namespace

ParsedCommandLine parse_command_line(int argc, const char* const* argv) {
  CLI::App app(
      "Penstock: an S3-compatible object store tuned for training.\n"
      "Start one with `penstock local DIR`, then point any S3 client at http://127.0.0.1:9000.");
  app.set_version_flag("--version", "penstock 0.1.0");
  app.require_subcommand(1);
  app.footer("Each subcommand has its own --help.");
  CommandLine line;
  Subcommands commands{};
  commands.local = add_local(app, line.local);
  commands.server = add_server(app, line.server);
  commands.gateway = add_gateway(app, line.gateway);
  add_ring(app, line, commands);
  commands.admin_keygen = add_keygen(app, line.key_file);
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
  if (commands.server->parsed()) line.command = CommandLine::Command::server;
  if (commands.gateway->parsed()) line.command = CommandLine::Command::gateway;
  if (commands.ring_make->parsed()) line.command = CommandLine::Command::ring_make;
  if (commands.admin_keygen->parsed()) line.command = CommandLine::Command::admin_keygen;
  if (commands.ring_status->parsed()) line.command = CommandLine::Command::ring_status;
  if (commands.ring_replace->parsed()) line.command = CommandLine::Command::ring_replace;
  return {std::move(line), 0};
}

}  // namespace penstock
