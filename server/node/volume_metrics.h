// What /metrics shows of the volumes of a store, and of the rounds that go to them.
#pragma once
#include "penstock/metrics.h"
#include "server/node/local_store.h"
#include "server/proposer/proposer.h"

namespace penstock {

// Ownership: each borrows both.
void add_collectors_of_volumes(Metrics& metrics, const LocalStore& store);
void add_collectors_of_registers(Metrics& metrics, const Proposer& proposer);

}  // namespace penstock
