// One event per line: level, event name, key=value pairs; the request id among them where there is
// one.
//   log_event(LogLevel::warn, "volume_closed", {{"volume", name}, {"reason", error.context}});
// error: someone must act; warn: degraded but served; info: a state changed; debug: per request.
// Thread-safety: any thread. Never log and return the same error.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {

enum class LogLevel : std::uint8_t { debug, info, warn, error };
struct LogField {
  std::string_view name;  // empty: the field is left out
  std::string value;
};
void log_event(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
// Events below `level` are dropped; default info. The simulator sets a sink of its own (null =
// standard error).
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
// From now on a thread of its own writes to standard error: a terminal that stands still, a pipe
// that nobody reads and a disk that hangs must not stop the store. What finds no room in its queue
// is dropped, and counted there. For a process that serves; once, with its signals blocked. That
// thread never ends.
void write_log_on_a_thread();
// Before the process ends: until all that was logged is written, but half a second at most. False:
// it is not. At once without that thread.
bool flush_log();
std::uint64_t log_lines_dropped();

using LogSink = void (*)(LogLevel level, std::string_view line);
void set_log_sink(LogSink sink);

}  // namespace penstock
