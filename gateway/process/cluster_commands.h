// The commands that make a cluster. Each returns the exit code of the process, and writes what it
// did to standard output, what is wrong to standard error.
#pragma once
#include <string>

#include "gateway/cluster_arguments.h"

namespace penstock {

// `penstock admin keygen FILE`.
int make_key_file(const std::string& path);

// `penstock ring make`: takes the candidates of the servers into a map, writes it to its file, and
// installs it at the volumes. Again, with a file that is there: installs that map, which changes
// nothing where it is installed already.
int make_ring(const RingMakeArguments& arguments);

}  // namespace penstock
