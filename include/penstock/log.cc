#include "penstock/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iterator>

namespace penstock {
namespace {
constexpr std::size_t kLineBytesMax = 8 * 1024;  // a longer value is cut: one event stays one write

std::atomic<LogLevel> g_level{LogLevel::info};
std::atomic<LogSink> g_sink{nullptr};

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warn:
      return "warn";
    case LogLevel::error:
      return "error";
  }
  return "?";
}

// Plain: what cannot be taken for a separator, a quote or a command to a terminal.
bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte < 0x7f && c != '"' && c != '=' && c != '\\';
}

void append_value(fmt::memory_buffer& line, std::string_view value) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), is_plain);
  if (plain && line.size() + value.size() < kLineBytesMax) {
    line.append(value);
    return;
  }
  line.push_back('"');
  for (const char c : value) {
    if (line.size() >= kLineBytesMax) {
      line.append(std::string_view("..."));
      break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      line.push_back('\\');
      line.push_back(c);
    } else if (c == '\n') {
      line.append(std::string_view("\\n"));
    } else if (byte >= 0x20 && byte < 0x7f) {
      line.push_back(c);
    } else {
      fmt::format_to(std::back_inserter(line), "\\x{:02x}", byte);
    }
  }
  line.push_back('"');
}

void append_time(fmt::memory_buffer& line) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  fmt::format_to(std::back_inserter(line), "{:%Y-%m-%dT%H:%M:%S}.{:06}Z ", fmt::gmtime(now.tv_sec),
                 now.tv_nsec / 1000);
}

// One write(2) per line keeps lines of several threads apart. A log that cannot be written must not
// stop the store.
void write_to_standard_error(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    line.remove_prefix(static_cast<std::size_t>(written));
  }
}
}  // namespace

void log_event(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!log_enabled(level)) return;
  const LogSink sink = g_sink.load(std::memory_order_acquire);
  fmt::memory_buffer line;
  if (sink == nullptr) append_time(line);  // a sink has a clock of its own, or wants none
  fmt::format_to(std::back_inserter(line), "level={} event={}", to_string(level), event);
  for (const LogField& field : fields) {
    if (field.name.empty()) continue;
    line.push_back(' ');
    line.append(field.name);
    line.push_back('=');
    append_value(line, field.value);
  }
  if (sink != nullptr) {
    sink(level, std::string_view(line.data(), line.size()));
    return;
  }
  line.push_back('\n');
  write_to_standard_error(std::string_view(line.data(), line.size()));
}

void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
bool log_enabled(LogLevel level) { return level >= g_level.load(std::memory_order_relaxed); }
void set_log_sink(LogSink sink) { g_sink.store(sink, std::memory_order_release); }

}  // namespace penstock
