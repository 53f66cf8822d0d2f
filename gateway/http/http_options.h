// What can be set on an HTTP server; the defaults are the product's limits, tests shorten them.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "penstock/limits.h"
#include "penstock/memory_budget.h"
#include "penstock/types.h"

namespace penstock {

struct HttpOptions {
  // At the bound the connection that idles longest makes room for a new one; see http_loop.h.
  std::size_t connections_max = limits::kConnectionsMax;
  // Of one peer address (of IPv6: of one /64). 0: no fixed bound, for a proxy may be in front; but
  // an address that has half of connections_max makes room among its own once three quarters of all
  // are taken, so that its idle ones never fill the rest.
  std::size_t connections_per_address = 0;
  std::size_t lingers_max = limits::kLingersMax;
  std::size_t head_bytes_max = limits::kHeaderBytesMax;
  Duration header_timeout = limits::kHeaderTimeout;
  Duration first_byte_timeout = limits::kFirstByteTimeout;  // of a new connection
  Duration idle_timeout = limits::kIdleTimeout;
  Duration idle_holds = limits::kIdleHolds;
  // A body may pause this long in all while it brings less than the minimum rate.
  Duration body_stall = limits::kBodyStall;
  std::uint64_t body_bytes_per_second_min = limits::kBodyBytesPerSecondMin;
  // A reader is closed when the peer's host took not one byte for so long; of an answer that is
  // held in memory, sooner.
  Duration reader_pause = limits::kReaderPause;
  Duration document_pause = limits::kDocumentPause;
  Duration reader_stalled = limits::kReaderStalled;
  Duration paused_evictable = limits::kPausedEvictable;
  Duration linger = limits::kLinger;
  // Verified pages of files may leave as they are, without a copy (pinned_pages.h). Cheaper, but
  // what writes to the file between the check and the send would be sent unchecked; without it a
  // verified copy in memory leaves.
  bool sendfile = false;
  Duration deadline_tick = std::chrono::milliseconds(250);
  MemoryBudget* memory = nullptr;  // long heads count; null: they do not
};

}  // namespace penstock
