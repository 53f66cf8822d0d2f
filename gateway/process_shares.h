// What a process may use of the machine, and how its parts share that.
#pragma once
#include <cstddef>

#include "gateway/descriptor_shares.h"
#include "gateway/local_config.h"
#include "gateway/memory_shares.h"
#include "penstock/result.h"

namespace penstock {

struct ProcessShares {
  DescriptorShares descriptors;
  MemoryShares memory;  // its connections are no more than the descriptors allow
};

// Raises the limit of open files as far as it may. Says in the log what is less than wanted.
// Errors: invalid - there is not enough for the volumes.
Result<ProcessShares> share_process(const LocalConfig& config, std::size_t volumes,
                                    ConnectionsWanted connections);

}  // namespace penstock
