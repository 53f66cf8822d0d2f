// What can be set on an HTTP server; the defaults are the product's limits, tests shorten them.
#pragma once
#include <cstddef>
#include <string>

#include "penstock/limits.h"
#include "penstock/types.h"

namespace penstock {

struct HttpOptions {
  std::size_t connections_max = limits::kConnectionsMax;
  std::size_t head_bytes_max = limits::kHeaderBytesMax;
  Duration header_timeout = limits::kHeaderTimeout;
  Duration idle_timeout = limits::kIdleTimeout;
  // A body may pause this long in all while it brings less than the minimum rate; likewise a
  // reader.
  Duration body_stall = limits::kBodyStall;
  std::uint64_t body_bytes_per_second_min = limits::kBodyBytesPerSecondMin;
  Duration send_stall = limits::kSendStall;
  std::uint64_t send_bytes_per_second_min = limits::kSendBytesPerSecondMin;
  Duration linger = limits::kLinger;
  // Verified pages of files may leave by sendfile(2). Cheaper, but what writes to the file between
  // the check and the send would be sent unchecked; without it a verified copy in memory leaves.
  bool sendfile = false;
  Duration deadline_tick = std::chrono::milliseconds(250);
};

}  // namespace penstock
