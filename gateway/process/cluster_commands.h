// The commands of a cluster that are no processes which stay: each does its work and says what it
// did. Returns the exit code of the process.
// Thread-safety: one thread; they block.
#pragma once
#include <string>

#include "gateway/cluster_arguments.h"
#include "gateway/ring_command.h"
#include "penstock/result.h"
#include "server/membership/map_install.h"

namespace penstock {

// Says why it failed, on standard error.
int tell_failure_of(const Error& error);

// What became of a map at the volumes. Errors: unavailable - too few have taken it.
Result<> tell_installed(const ClusterMap& map, const Installed& installed);

int make_key_file(const std::string& path);
int make_ring(const RingMakeArguments& arguments);
int add_to_ring(const RingMakeArguments& arguments);
int show_ring(const RingLookArguments& arguments);
int show_what_if(const RingLookArguments& arguments);
int show_cluster_status(const RingLookArguments& arguments);
int restore_ring(const RingLookArguments& arguments);
int export_ring(const RingExportArguments& arguments);
int show_admin_status(const AdminStatusArguments& arguments);

}  // namespace penstock
