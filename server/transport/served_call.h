// A call on its way to its answer at the server, and its line in the log. Thread-safety: values.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "penstock/runtime.h"
#include "penstock/types.h"
#include "server/transport/wire.h"

namespace penstock {

struct ServedCall {
  wire::Header header;
  Trace trace;  // of the request that it is made for
  BootTime began;
};

// A call that took so long is told in the log.
inline constexpr Duration kSlowCall = std::chrono::seconds(1);

// `error`: null: it succeeded. `left_out`: lines of its kind before it that were not written.
void log_served_call(const ServedCall& call, const std::string& peer, const Error* error,
                     Duration took, std::uint64_t left_out);

}  // namespace penstock
