// How a command finds a cluster: what it was told, completed from the cluster.json of a directory
// (scripts/cluster and `penstock ring export` write one). Thread-safety: any thread; blocks on the
// file system.
#pragma once
#include <string>
#include <string_view>

#include "gateway/cluster_arguments.h"
#include "penstock/result.h"

namespace penstock {

// Adds to `reach` what cluster.json says of key or certificates, map and servers; what `reach` says
// itself counts. Paths are relative to `directory`. Errors: invalid - it makes no sense.
Result<ReachArguments> complete_from_json(ReachArguments reach, std::string_view json,
                                          const std::string& directory);
// Errors: the same; not_found; invalid - neither a map nor a server is named, or no key.
Result<ReachArguments> complete_reach(ReachArguments reach);

}  // namespace penstock
