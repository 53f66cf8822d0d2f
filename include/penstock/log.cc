#include "penstock/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace penstock {
namespace {
constexpr std::size_t kLineBytesMax = 8 * 1024;  // a longer value is cut

constexpr std::chrono::milliseconds kLastPatience{500};

std::atomic<LogLevel> g_level{LogLevel::info};
std::atomic<LogSink> g_sink{nullptr};

// Lines on their way to the thread that writes them. Never destroyed: that thread may be stuck.
struct LogQueue {
  static constexpr std::size_t kBytesMax = 1024 * 1024;
  static constexpr std::size_t kRoom = kBytesMax + 256;  // taken once: nothing here wants memory
  std::mutex mutex;                                      // guards the rest
  std::condition_variable more, written;
  std::string lines;
  bool writing = false;
  std::uint64_t dropped = 0, told = 0;
};
std::atomic<LogQueue*> g_queue{nullptr};

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

// What could not be written. A log that cannot be written must not stop the store. Before there is
// a thread for it, one write(2) per line keeps lines of several threads apart.
std::string_view write_to_standard_error(std::string_view lines) {
  while (!lines.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, lines.data(), lines.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return lines;
    lines.remove_prefix(static_cast<std::size_t>(written));
  }
  return lines;
}

// On the thread that may wait: also for who reads a pipe that does not block. How many lines are
// lost, in part or whole.
std::uint64_t write_patiently(std::string_view lines) {
  while (true) {
    lines = write_to_standard_error(lines);
    if (lines.empty()) return 0;
    if (errno != EAGAIN) break;
    pollfd writable{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&writable, 1, -1) < 0 && errno != EINTR) break;
  }
  return static_cast<std::uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
}

void put_into(LogQueue& queue, std::string_view line) {
  const std::lock_guard lock(queue.mutex);
  if (queue.lines.size() + line.size() > LogQueue::kBytesMax) {
    ++queue.dropped;
    return;
  }
  queue.lines.append(line);
  queue.more.notify_one();
}

std::string dropped_line(std::uint64_t count) {
  fmt::memory_buffer line;
  append_time(line);
  fmt::format_to(std::back_inserter(line), "level=warn event=log_lines_dropped count={}\n", count);
  return std::string(line.data(), line.size());
}

void write_lines(LogQueue& queue) {
  std::string lines;
  lines.reserve(LogQueue::kRoom);
  std::unique_lock lock(queue.mutex);
  while (true) {
    queue.more.wait(lock, [&] { return !queue.lines.empty(); });
    lines.clear();
    std::swap(lines, queue.lines);
    queue.writing = true;
    const std::uint64_t lost = queue.dropped - std::exchange(queue.told, queue.dropped);
    lock.unlock();
    // What was dropped came before this batch was taken and behind its lines.
    if (lost > 0) lines += dropped_line(lost);
    const std::uint64_t failed = write_patiently(lines);
    lock.lock();
    queue.dropped += failed;
    queue.writing = false;
    queue.written.notify_all();
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
  const std::string_view whole(line.data(), line.size());
  LogQueue* const queue = g_queue.load(std::memory_order_acquire);
  if (queue != nullptr) return put_into(*queue, whole);
  write_to_standard_error(whole);
}

void write_log_on_a_thread() {
  auto* const queue = new LogQueue;
  queue->lines.reserve(LogQueue::kRoom);
  std::thread([queue] { write_lines(*queue); }).detach();
  g_queue.store(queue, std::memory_order_release);
}

bool flush_log() {
  LogQueue* const queue = g_queue.load(std::memory_order_acquire);
  if (queue == nullptr) return true;
  std::unique_lock lock(queue->mutex);
  return queue->written.wait_for(lock, kLastPatience,
                                 [&] { return queue->lines.empty() && !queue->writing; });
}

std::uint64_t log_lines_dropped() {
  LogQueue* const queue = g_queue.load(std::memory_order_acquire);
  if (queue == nullptr) return 0;
  const std::lock_guard lock(queue->mutex);
  return queue->dropped;
}

void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
bool log_enabled(LogLevel level) { return level >= g_level.load(std::memory_order_relaxed); }
void set_log_sink(LogSink sink) { g_sink.store(sink, std::memory_order_release); }

}  // namespace penstock
