// The options by which a process of a cluster is told how others know it.
#pragma once
#include <CLI/CLI.hpp>

#include "gateway/cluster_arguments.h"

namespace penstock {

// `trust` outlives the parsing.
void add_trust(CLI::App& command, TrustArguments& trust);
// Is there a key or a certificate?
bool has_trust(const TrustArguments& trust);

}  // namespace penstock
