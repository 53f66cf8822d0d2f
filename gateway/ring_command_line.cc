#include "gateway/ring_command_line.h"

#include <string>

#include "gateway/address_option.h"
#include "gateway/trust_options.h"

namespace penstock {
namespace {

using Command = CommandLine::Command;

void add_reach(CLI::App& command, ReachArguments& reach) {
  command.add_option("--cluster", reach.directory,
                     "DIR with a cluster.json, which names key, map and servers, as\n"
                     "scripts/cluster and `penstock ring export` make it");
  command.add_option("--map", reach.map,
                     "Where the cluster's map is kept: etcd://HOST:PORT[,HOST:PORT]/CLUSTER-ID,\n"
                     "or file:PATH for a cluster whose map is changed by hand");
  add_trust(command, reach.trust);
}
void add_servers(CLI::App& command, ReachArguments& reach) {
  wants_reachable(
      command.add_option("--servers", reach.servers,
                         "ADDRESS:PORT,… of servers to ask, where there is no --map; some are "
                         "enough"))
      ->delimiter(',');
}
// `store`: of a store the command may be, too.
void want_cluster(CLI::App& command, const ReachArguments& reach,
                  const std::string* store = nullptr) {
  command.callback([&reach, store] {
    if (!reach.directory.empty() || !reach.map.empty() || !reach.servers.empty()) return;
    if (store == nullptr) throw CLI::RequiredError("--cluster, --map or --servers");
    if (store->empty()) throw CLI::RequiredError("DIR, --cluster, --map or --servers");
  });
}
void add_json(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "The whole answer as JSON");
}

CLI::App* add_make(CLI::App& ring, RingMakeArguments& arguments) {
  auto* make = ring.add_subcommand(
      "make",
      "Makes the map of a new cluster: takes fresh volumes into it, writes it to the map source,\n"
      "and has it installed at the volumes. Of three hosts or more each is a failure domain, of\n"
      "fewer each volume. Was it cut off: say it again; a map that is there is installed as is.\n"
      "Example: penstock ring make --key cluster.key --map map.json --server 10.0.0.1:9200 \\\n"
      "           --server 10.0.0.2:9200 --server 10.0.0.3:9200");
  add_reach(*make, arguments.reach);
  want_cluster(*make, arguments.reach);
  wants_reachable(make->add_option(
      "--server", arguments.servers,
      "ADDRESS:PORT of a server whose fresh volumes are taken in; give each of them.\n"
      "Default: all that announce themselves in etcd"));
  make->add_option("--layout", arguments.layout,
                   "K+M: data and parity fragments of large objects; default: by the number of\n"
                   "failure domains, e.g. 4+2 of six");
  return make;
}

CLI::App* add_add(CLI::App& ring, RingMakeArguments& arguments) {
  auto* add = ring.add_subcommand(
      "add",
      "Takes fresh volumes of servers into the map of a running cluster: they get new data from\n"
      "then on. Data that is there already stays where it is; so do the records of objects, and\n"
      "the layout. Of volumes that are served at another address than the map says, it writes\n"
      "that address into the map. Was it cut off: say it again. While another command changes the\n"
      "map it waits. Look before with `penstock ring what-if`.\n"
      "Example: penstock server --key cluster.key --listen 10.0.0.7:9200 --format /mnt/d1\n"
      "         penstock ring add --key cluster.key --map etcd://10.0.0.1:2379/CLUSTER-ID \\\n"
      "           --server 10.0.0.7:9200");
  add_reach(*add, arguments.reach);
  want_cluster(*add, arguments.reach);
  wants_reachable(add->add_option(
      "--server", arguments.servers,
      "ADDRESS:PORT of a server whose fresh volumes are taken in; may be repeated.\n"
      "Default: all candidates that announce themselves in etcd"));
  add->add_option("--weight", arguments.weight,
                  "Share of new data of each new volume, compared with 1 of the others")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 64.0));
  return add;
}

CLI::App* add_show(CLI::App& ring, RingLookArguments& arguments) {
  auto* show = ring.add_subcommand(
      "show",
      "Shows the map that the cluster follows: volumes, hosts, zones, each one's share of new\n"
      "data, the layout, and what may be lost.\n"
      "Example: penstock ring show --cluster ./penstock-cluster");
  add_reach(*show, arguments.reach);
  want_cluster(*show, arguments.reach);
  add_servers(*show, arguments.reach);
  add_json(*show, arguments.json);
  return show;
}

CLI::App* add_what_if(CLI::App& ring, RingLookArguments& arguments) {
  auto* what_if = ring.add_subcommand(
      "what-if",
      "Shows what a cluster would be with more hosts, or without some: shares of new data,\n"
      "failure domains, layout, losses that it survives, room. Changes nothing. Without a cluster\n"
      "it shows a new one of the hosts that are added.\n"
      "Examples: penstock ring what-if --cluster ./penstock-cluster --add h7 --lose s2\n"
      "          penstock ring what-if --add a1,zone=a --add b1,zone=b --add c1,zone=c,volumes=4");
  add_reach(*what_if, arguments.reach);
  add_servers(*what_if, arguments.reach);
  what_if->add_option("--add", arguments.add,
                      "NAME[,zone=Z][,volumes=N][,weight=W][,size=BYTES]: a host that joins; may\n"
                      "be repeated. BYTES of each volume may end in G or T");
  what_if->add_option("--lose", arguments.lose,
                      "A volume (name or id), a host, an address or a zone that is lost; may be\n"
                      "repeated");
  what_if->add_option("--layout", arguments.layout, "K+M of a new cluster");
  add_json(*what_if, arguments.json);
  return what_if;
}

CLI::App* add_status(CLI::App& ring, RingArguments& local, RingLookArguments& arguments) {
  auto* status = ring.add_subcommand(
      "status",
      "Of a cluster: what the map source says, what each volume holds, what differs and what to\n"
      "do about it. Exit code 0: all is well; 4: something is to be done; 1: nobody answers.\n"
      "Of a store, `penstock ring status DIR`: which volumes there are, what is lost, how far a\n"
      "replacement has come. Asks the running `penstock local DIR` through DIR/control.sock.\n"
      "Example: penstock ring status --key cluster.key --servers 10.0.0.1:9200,10.0.0.2:9200");
  status->add_option("DIR", local.directory, "The directory `penstock local` was given");
  add_reach(*status, arguments.reach);
  want_cluster(*status, arguments.reach, &local.directory);
  add_servers(*status, arguments.reach);
  add_json(*status, arguments.json);
  return status;
}

CLI::App* add_restore(CLI::App& ring, RingLookArguments& arguments) {
  auto* restore = ring.add_subcommand(
      "restore",
      "Writes the map that a majority of the volumes holds back to a map source that came back\n"
      "older, empty or with another map. Changes nothing where all is in step, and refuses where\n"
      "no majority answers.\n"
      "Example: penstock ring restore --key cluster.key --map etcd://10.0.0.1:2379/CLUSTER-ID \\\n"
      "           --servers 10.0.0.1:9200");
  add_reach(*restore, arguments.reach);
  want_cluster(*restore, arguments.reach);
  wants_reachable(
      restore->add_option("--servers", arguments.reach.servers,
                          "ADDRESS:PORT,… of servers to ask; needed when the map source is empty"))
      ->delimiter(',');
  return restore;
}

CLI::App* add_export(CLI::App& ring, RingExportArguments& arguments) {
  auto* command = ring.add_subcommand(
      "export",
      "Turns a stopped store of `penstock local` into a cluster of one server, without copying a\n"
      "byte: writes key, map and accounts to --to, and says how to start server and gateway. Its\n"
      "objects, buckets and accounts stay what they are. From then on `penstock local` refuses\n"
      "the store: it belongs to the cluster. Was it cut off: say it again.\n"
      "Example: penstock ring export /data --to /etc/penstock/cluster --listen 10.0.0.1:9200");
  command
      ->add_option("DIR", arguments.directories,
                   "What `penstock local` was given: one directory, or one per volume")
      ->required();
  command
      ->add_option("--to", arguments.to, "Directory for the files of the cluster, made if it lacks")
      ->required();
  command
      ->add_option("--listen", arguments.listen,
                   "ADDRESS:PORT at which the server will be reached: the map names it")
      ->capture_default_str();
  command->add_option("--map", arguments.map,
                      "Where the map is kept: etcd://HOST:PORT/CLUSTER-ID; default: a file in TO");
  command->add_option("--credentials", arguments.credentials_file,
                      "More accounts, if `penstock local` was given some");
  command->add_option("--host", arguments.host,
                      "The machine, for placement; default: ADDRESS:PORT of --listen");
  command->add_option("--zone", arguments.zone, "Its zone, for placement");
  return command;
}

CLI::App* add_replace(CLI::App& ring, RingArguments& arguments) {
  auto* replace = ring.add_subcommand(
      "replace",
      "Replaces a volume, lost or still working, by a new one while the store is in use.\n"
      "NEWDIR must be empty: it becomes a volume with an identity of its own; a wiped disk never\n"
      "takes its old one up again. Rows and fragments are made anew from the other volumes, or\n"
      "copied while the old one can be read. A restart in between goes on with it.\n"
      "Example: penstock ring replace /data --volume v2 --with /mnt/new-disk --wait");
  replace->add_option("DIR", arguments.directory, "The directory `penstock local` was given")
      ->required();
  replace->add_option("--volume", arguments.volume, "Name, id or directory of the old volume")
      ->required();
  replace->add_option("--with", arguments.with, "Directory of the new volume, on a new disk")
      ->required();
  replace->add_flag("--wait", arguments.wait, "Until the store is whole, showing the progress");
  return replace;
}

}  // namespace

void add_ring_commands(CLI::App& app, CommandLine& line, CommandTable& table) {
  auto* ring = app.add_subcommand(
      "ring", "The volumes of a cluster or a store: make a map, add, show, look, replace.");
  ring->require_subcommand(1);
  table.emplace_back(add_make(*ring, line.ring_make), Command::ring_make);
  table.emplace_back(add_add(*ring, line.ring_add), Command::ring_add);
  table.emplace_back(add_show(*ring, line.ring_show), Command::ring_show);
  table.emplace_back(add_what_if(*ring, line.ring_what_if), Command::ring_what_if);
  table.emplace_back(add_status(*ring, line.ring, line.ring_look), Command::ring_status);
  table.emplace_back(add_restore(*ring, line.ring_restore), Command::ring_restore);
  table.emplace_back(add_export(*ring, line.ring_export), Command::ring_export);
  table.emplace_back(add_replace(*ring, line.ring), Command::ring_replace);
}

void add_admin_commands(CLI::App& app, CommandLine& line, CommandTable& table) {
  auto* admin = app.add_subcommand("admin", "Looks after a cluster.");
  admin->require_subcommand(1);
  auto* keygen = admin->add_subcommand(
      "keygen",
      "Makes the id and the secret of a new cluster, in a file that is not there yet.\n"
      "Example: penstock admin keygen cluster.key");
  keygen->add_option("FILE", line.key_file, "Where they are written (mode 0600)")->required();
  table.emplace_back(keygen, Command::admin_keygen);
  auto* status = admin->add_subcommand(
      "status",
      "What the servers of a cluster say of themselves: release, map, volumes and their room,\n"
      "background jobs, whom they suspect, and how far their clocks are from this machine's.\n"
      "Exit code 0: all answer and nothing is wrong; 4: something is; 1: nobody answers.\n"
      "Example: penstock admin status --cluster ./penstock-cluster --watch");
  add_reach(*status, line.admin_status.reach);
  want_cluster(*status, line.admin_status.reach);
  add_servers(*status, line.admin_status.reach);
  add_json(*status, line.admin_status.json);
  status->add_flag("--watch", line.admin_status.watch, "Again every two seconds, until Ctrl-C");
  table.emplace_back(status, Command::admin_status);
}

}  // namespace penstock
