// What background work must have brought about when the world has been quiet for a while: no
// orphan, no hint, no upload and, where all replicas are well, no tombstone is left, and every
// fragment that a record names is there.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "server/background/removal/background_context.h"
#include "tests/sim/sim_volume.h"

namespace penstock::sim {

struct Leftovers {
  std::vector<std::string> waiting;  // what is still to be removed
  std::vector<std::string> missing;  // what may never be
  bool told = true;                  // every question was answered
};

// Looks at the disks of all volumes that are well, and asks `context` for the records.
// `keys`: objects of the bucket that clients use, whether they have fragments or not.
Awaitable<Leftovers> find_leftovers(BackgroundContext& context,
                                    std::vector<std::shared_ptr<SimVolume>> volumes,
                                    std::shared_ptr<const Bucket> bucket,
                                    std::vector<std::string> keys);

}  // namespace penstock::sim
