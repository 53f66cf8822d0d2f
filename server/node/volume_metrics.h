// What /metrics shows of the volumes of this process.
#pragma once
#include "penstock/metrics.h"
#include "server/node/volume_set.h"

namespace penstock {

// Ownership: borrows both.
void add_collectors_of_volumes(Metrics& metrics, const VolumeSet& volumes);

}  // namespace penstock
