// The names of a request in logs: x-amz-request-id, and the id of the W3C trace it belongs to.
// Pure. Thread-safety: any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/deadline.h"
#include "penstock/log.h"

namespace penstock {

// The id of one request, from a random number: sixteen upper-case hexadecimal digits.
void write_request_id(std::uint64_t number, std::string& id);
std::string request_id_text(const Trace& trace);
// The way back; 0: that is no such id.
std::uint64_t request_number(std::string_view id);
// Thirty-two lower-case hexadecimal digits; empty without a trace.
std::string trace_text(const Trace& trace);
// The same for a line of the log, left out without one.
LogField trace_field(const Trace& trace);

}  // namespace penstock
