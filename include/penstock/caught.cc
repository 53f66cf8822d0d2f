#include "penstock/caught.h"

#include <atomic>
#include <new>
#include <stdexcept>

#include "penstock/log.h"
#include "penstock/runtime.h"

namespace penstock {
namespace {

constexpr std::int64_t kLinesPerSecond = 20;
constexpr std::string_view kExceptionWords = "exception in ";

std::atomic<std::uint64_t> g_caught{0};
std::atomic<std::int64_t> g_second{0};
std::atomic<std::int64_t> g_lines{0};

bool may_log() {
  const auto second = RealClock().boot().time_since_epoch() / std::chrono::seconds(1);
  if (g_second.exchange(second) != second) g_lines.store(0);
  return g_lines.fetch_add(1) < kLinesPerSecond;
}

std::string what_of(const std::exception_ptr& thrown) {
  if (!thrown) return "nothing";
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "not a std::exception";
  }
}

}  // namespace

void report_exception(std::string_view where, const std::exception_ptr& thrown) noexcept {
  g_caught.fetch_add(1);
  try {
    if (!may_log()) return;
    log_event(LogLevel::error, "exception_caught",
              {{"where", std::string(where)}, {"what", what_of(thrown)}});
  } catch (...) {  // no memory for the line: it is counted
  }
}

void report_exception(std::string_view where) noexcept {
  report_exception(where, std::current_exception());
}

std::uint64_t exceptions_caught() { return g_caught.load(); }

Error error_of_exception(std::string_view where, const std::exception_ptr& thrown) noexcept {
  report_exception(where, thrown);
  Error error;
  error.code = Errc::io;
  error.thrown = true;
  try {
    error.context = std::string(kExceptionWords) + std::string(where) + ": " + what_of(thrown);
  } catch (...) {
    error.context = "exception in ?";  // so short that it takes no memory
  }
  return error;
}

Error error_of_exception(std::string_view where) noexcept {
  return error_of_exception(where, std::current_exception());
}

bool is_out_of_memory(const std::exception_ptr& thrown) noexcept {
  if (!thrown) return false;
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace penstock
