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
using LogSink = void (*)(LogLevel level, std::string_view line);
void set_log_sink(LogSink sink);

}  // namespace penstock
