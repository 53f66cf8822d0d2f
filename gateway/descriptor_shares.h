// What the system lets the process have of files: their size, and how its descriptors are shared.
// Volumes come first: a connection that finds none is refused and can come again, a volume needs
// its files.
#pragma once
#include <cstddef>
#include <cstdint>

#include "penstock/limits.h"
#include "penstock/result.h"

namespace penstock {

struct DescriptorShares {
  std::size_t connections = limits::kConnectionsMax;
  std::size_t per_volume = 2 * limits::kReadHandlesPerVolume;
  std::size_t pipes = 0;  // two each: pages on their way to clients (pinned_pages.h)
};

// A file of a volume may grow to this: the largest fragment, and then some.
inline constexpr std::uint64_t kFileSizeMin = 8 * limits::kGiB;
// Raises the limit of a file's size as far as it may be raised: past it writes fail, and volumes
// close. Errors: invalid - it is too little.
Result<> check_file_size_limit();

// Raises the process's limit to what it may be raised to, and returns it.
std::size_t raise_file_limit();
// `uncopied`: pages are sent from the page cache, so there are pipes. Says in the log if there are
// fewer connections than wanted.
// Errors: invalid - the limit is not enough for the volumes.
Result<DescriptorShares> share_descriptors(std::size_t limit, std::size_t volumes,
                                           std::size_t connections_wanted, bool uncopied);

}  // namespace penstock
