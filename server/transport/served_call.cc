#include "server/transport/served_call.h"

#include "penstock/log.h"
#include "penstock/request_name.h"
#include "penstock/volume_note.h"
#include "server/transport/call_kinds.h"

namespace penstock {

void log_served_call(const ServedCall& call, const std::string& peer, const Error* error,
                     Duration took, std::uint64_t left_out) {
  const bool bad = error != nullptr && is_trouble(error->code);
  const bool slow = took >= kSlowCall;
  const bool known = !call.trace.is_zero();
  log_event(bad || slow ? LogLevel::warn : LogLevel::debug,
            bad    ? "call_failed"
            : slow ? "call_slow"
                   : "call",
            {{known ? "request_id" : "", known ? request_id_text(call.trace) : ""},
             trace_field(call.trace),
             {"operation", std::string(operation_name(call.header.operation))},
             {"volume", hex_name(call.header.volume.value)},
             {"peer", peer},
             {"code", error == nullptr ? "ok" : std::string(to_string(error->code))},
             {"reason", error == nullptr ? "" : error->context},
             {"duration_us", std::to_string(took.count())},
             {left_out > 0 ? "left_out" : "", std::to_string(left_out)}});
}

}  // namespace penstock
