// How the process's file descriptors are shared. Volumes come first: a connection that finds none
// is refused and can come again, a volume needs its files.
#pragma once
#include <cstddef>

#include "penstock/limits.h"
#include "penstock/result.h"

namespace penstock {

struct DescriptorShares {
  std::size_t connections = limits::kConnectionsMax;
  std::size_t per_volume = 2 * limits::kReadHandlesPerVolume;
  std::size_t pipes = 0;  // two each: pages on their way to clients (pinned_pages.h)
};

// Raises the process's limit to what it may be raised to, and returns it.
std::size_t raise_file_limit();
// `uncopied`: pages are sent from the page cache, so there are pipes. Says in the log if there are
// fewer connections than wanted.
// Errors: invalid - the limit is not enough for the volumes.
Result<DescriptorShares> share_descriptors(std::size_t limit, std::size_t volumes,
                                           std::size_t connections_wanted, bool uncopied);

}  // namespace penstock
