// What /metrics shows of the S3 port, and of the memory that its requests use.
#pragma once
#include "gateway/http/http_server.h"
#include "penstock/buffer.h"
#include "penstock/metrics.h"

namespace penstock {

// Ownership: each borrows both.
void add_collectors_of_http(Metrics& metrics, const HttpServer& server);
void add_collectors_of_memory(Metrics& metrics, const MemoryBudget& budget);

}  // namespace penstock
