// Exceptions are none of our ways to fail (result.h), but libraries throw, and so does memory that
// is not to be had. One that reaches the foot of a thread, a loop or a coroutine ends the job that
// it is of, and nothing else: it is logged, counted, and becomes an error where somebody waits.
// Thread-safety: any thread.
#pragma once
#include <cstdint>
#include <exception>
#include <string_view>

#include "penstock/result.h"

namespace penstock {

// Within a catch, or with what one kept. Logs `exception_caught` with what it says and where it was
// caught, at most 20 a second; counts all. Never throws.
void report_exception(std::string_view where) noexcept;
void report_exception(std::string_view where, const std::exception_ptr& thrown) noexcept;
std::uint64_t exceptions_caught();
// What co_spawn() is to call at the end of a coroutine that nobody waits for: reports a throw.
struct ReportThrown {
  const char* where;
  void operator()(const std::exception_ptr& thrown) const noexcept {
    if (thrown) report_exception(where, thrown);
  }
};

// The same, and the error for whoever waits: io, since what was under way may or may not have been
// done; nobody may take it for a refusal. `thrown` is set: what it closes is as a process that was
// killed leaves it; no disk has failed, and the next start may take it up again.
Error error_of_exception(std::string_view where) noexcept;
Error error_of_exception(std::string_view where, const std::exception_ptr& thrown) noexcept;
// Was it memory that is not to be had?
bool is_out_of_memory(const std::exception_ptr& thrown) noexcept;

}  // namespace penstock
