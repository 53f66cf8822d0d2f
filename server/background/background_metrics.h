// What /metrics shows of background work.
#pragma once
#include <functional>

#include "penstock/metrics.h"
#include "server/background/removal/background_context.h"

namespace penstock {

// `status` is called, from any thread, whenever somebody asks.
void add_collectors_of_background(Metrics& metrics, std::function<BackgroundStatus()> status);

}  // namespace penstock
