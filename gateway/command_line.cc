#include "gateway/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>

namespace penstock {
namespace {

struct Subcommands {
  CLI::App* local;
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

void add_ring(CLI::App& app, RingArguments& arguments, Subcommands& commands) {
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
  add_ring(app, line.ring, commands);
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
  if (commands.ring_status->parsed()) line.command = CommandLine::Command::ring_status;
  if (commands.ring_replace->parsed()) line.command = CommandLine::Command::ring_replace;
  return {std::move(line), 0};
}

}  // namespace penstock
