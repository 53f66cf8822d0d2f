#include "gateway/access_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>

#include "gateway/s3/http_date.h"
#include "penstock/limits.h"
#include "penstock/log.h"
#include "penstock/request_name.h"
#include "penstock/runtime.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kFlushEvery{500};
constexpr std::chrono::milliseconds kLastFlush{2000};
constexpr int kPollMs = 100;
constexpr std::size_t kFileWriteMax = 1 << 20;
constexpr Duration kComplainEvery = std::chrono::minutes(1);
constexpr mode_t kLogMode = S_IRUSR | S_IWUSR | S_IRGRP;

// The length of the UTF-8 sequence that `text` begins with; 0: it begins with none.
std::size_t json_utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i, unsigned low, unsigned high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1, 0x80, 0xbf) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const unsigned low = first == 0xe0 ? 0xa0 : 0x80;
    const unsigned high = first == 0xed ? 0x9f : 0xbf;  // no surrogates
    return follows(1, low, high) && follows(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned low = first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = first == 0xf4 ? 0x8f : 0xbf;
    return follows(1, low, high) && follows(2, 0x80, 0xbf) && follows(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

void add_text(std::string& line, std::string_view name, std::string_view value) {
  line += ",\"";
  line += name;
  line += "\":";
  append_json_string(line, value);
}

void add_bounded(std::string& line, std::string_view name, std::string_view value) {
  if (!value.empty()) add_text(line, name, value.substr(0, limits::kAccessLogFieldMax));
}

void add_number(std::string& line, std::string_view name, std::uint64_t value) {
  fmt::format_to(std::back_inserter(line), ",\"{}\":{}", name, value);
}

}  // namespace

void append_json_string(std::string& out, std::string_view bytes) {
  out.push_back('"');
  while (!bytes.empty()) {
    const std::size_t length = json_utf8_length(bytes);
    const auto first = static_cast<unsigned char>(bytes.front());
    if (length == 0) {
      out += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      out.push_back('\\');
      out.push_back(bytes.front());
    } else if (first < 0x20 || first == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", first);
    } else {
      out.append(bytes.substr(0, length));
    }
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out.push_back('"');
}

std::string access_line(const AccessEntry& entry) {
  std::string line = "{\"time\":\"" + iso_date(entry.time) + "\"";
  line.reserve(512 + entry.key.size());
  add_text(line, "address", entry.address);
  add_text(line, "account", entry.account);
  if (!entry.access_key.empty()) add_text(line, "access_key", entry.access_key);
  add_text(line, "operation", entry.operation);
  add_bounded(line, "method", entry.method);
  add_text(line, "bucket", entry.bucket);
  add_text(line, "key", entry.key);
  add_number(line, "status", static_cast<std::uint64_t>(std::max(entry.status, 0)));
  if (!entry.error.empty()) add_text(line, "error", entry.error);
  add_number(line, "bytes_in", entry.bytes_in);
  add_number(line, "bytes_out", entry.bytes_out);
  fmt::format_to(std::back_inserter(line), ",\"ms\":{:.3f}",
                 static_cast<double>(entry.took.count()) / 1000.0);
  add_text(line, "request_id", entry.request_id);
  add_text(line, "trace_id", trace_text(entry.trace));
  add_bounded(line, "target", entry.target);
  add_bounded(line, "range", entry.range);
  add_bounded(line, "user_agent", entry.user_agent);
  if (entry.cut_off) line += ",\"cut_off\":true";
  line += "}\n";
  return line;
}

struct AccessLog::State {
  explicit State(std::string the_path) : path(std::move(the_path)) {}
  ~State() { close_file(); }

  const std::string path;  // empty: standard output
  std::atomic<bool> reopen{false};
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> written{0}, dropped{0};

  std::mutex mutex;  // guards the next two
  std::string pending;
  std::uint64_t untold = 0;  // lines dropped since the log last said so

  // Of the writing thread, or before it runs.
  int fd = -1;
  bool is_regular = false;
  bool torn = false;  // the last line lacks its end
  RealClock clock;
  std::optional<BootTime> complained;

  void close_file() {
    if (fd >= 0 && !path.empty()) ::close(fd);
    fd = -1;
  }
  Result<> open_file();
  void step();
  void write_lines(std::string_view lines);
  std::size_t write_some(std::string_view lines);
  void drop(std::string_view lines);
  void complain(const std::string& what);
};

Result<> AccessLog::State::open_file() {
  int opened = STDOUT_FILENO;
  if (!path.empty()) {
    // A pipe would wait for its reader, now or at each write.
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    opened = ::open(path.c_str(), flags, kLogMode);
    if (opened < 0 && errno == ENXIO) return {};  // a pipe without a reader: later
    if (opened < 0) {
      return fail(Errc::io, "cannot open the access log " + path + ": " + std::strerror(errno));
    }
  }
  close_file();
  fd = opened;
  torn = false;
  struct stat status {};
  is_regular = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  return {};
}

void AccessLog::State::complain(const std::string& what) {
  const BootTime now = clock.boot();
  if (complained && now - *complained < kComplainEvery) return;
  complained = now;
  log_event(LogLevel::warn, "access_log_failed",
            {{"reason", what}, {"dropped", std::to_string(dropped.load())}});
}

void AccessLog::State::drop(std::string_view lines) {
  const auto count = static_cast<std::uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
  dropped += count;
  const std::lock_guard lock(mutex);
  untold += count;
}

void AccessLog::State::step() {
  if (reopen.exchange(false) || fd < 0) {
    if (const auto opened = open_file(); !opened) complain(opened.error().context);
  }
  if (fd < 0) return;
  std::string lines;
  std::uint64_t missing = 0;
  {
    const std::lock_guard lock(mutex);
    lines.swap(pending);
    missing = std::exchange(untold, 0);
  }
  write_lines(lines);
  if (missing == 0) return;
  // Behind those that were there first. Not a line of its own count if it is dropped as well.
  std::string note = "{\"time\":\"" + iso_date(clock.wall()) + "\"";
  add_number(note, "dropped", missing);
  note += "}\n";
  if (fd >= 0 && write_some(note) == note.size()) return;
  const std::lock_guard lock(mutex);
  untold += missing;
}

void AccessLog::State::write_lines(std::string_view lines) {
  if (torn && !lines.empty()) {
    if (write_some("\n") == 0) return drop(lines);
    torn = false;
  }
  while (!lines.empty()) {
    // Whole lines at once: a pipe keeps up to PIPE_BUF bytes together.
    std::size_t size = std::min<std::size_t>(lines.size(), is_regular ? kFileWriteMax : PIPE_BUF);
    const auto last_end = lines.substr(0, size).rfind('\n');
    size = (last_end == std::string_view::npos ? lines.find('\n') : last_end) + 1;
    const std::size_t done = fd < 0 ? 0 : write_some(lines.substr(0, size));
    const auto whole = static_cast<std::uint64_t>(
        std::count(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(done), '\n'));
    written += whole;
    if (done == size) {
      lines.remove_prefix(size);
      continue;
    }
    torn = done > 0 && lines[done - 1] != '\n';
    return drop(lines.substr(done));
  }
}

// How many bytes were written; fewer than all only after an error, or at the end of the process.
std::size_t AccessLog::State::write_some(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    if (!is_regular) {
      pollfd wait{fd, POLLOUT, 0};
      const int ready = ::poll(&wait, 1, kPollMs);
      if (ready == 0 && stopping.load()) return done;
      if (ready == 0) continue;
    }
    const ssize_t put = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (put >= 0) {
      done += static_cast<std::size_t>(put);
      continue;
    }
    if (errno == EINTR || errno == EAGAIN) continue;
    const int number = errno;
    complain(std::string("cannot write the access log: ") + std::strerror(number));
    if (number == EPIPE) close_file();  // a pipe gets another reader
    return done;
  }
  return done;
}

AccessLog::AccessLog(std::shared_ptr<State> state)
    : state_(std::move(state)),
      thread_(std::make_unique<SideThread>("access-log", kFlushEvery,
                                           [shared = state_] { shared->step(); })) {}

AccessLog::~AccessLog() { stop(); }

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& target) {
  auto state = std::make_shared<State>(target == "stdout" ? std::string() : target);
  CHECK_OK(state->open_file());
  return std::unique_ptr<AccessLog>(new AccessLog(std::move(state)));
}

void AccessLog::write(const AccessEntry& entry) {
  const std::string line = access_line(entry);
  bool first = false;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->pending.size() + line.size() > limits::kAccessLogBytesMax) {
      ++state_->untold;
      ++state_->dropped;
      return;
    }
    first = state_->pending.empty();
    state_->pending += line;
  }
  if (first) thread_->poke();
}

void AccessLog::reopen() {
  state_->reopen.store(true);
  thread_->poke();
}

void AccessLog::stop() {
  state_->stopping.store(true);
  thread_->stop(kLastFlush);
}

AccessLog::Counts AccessLog::counts() const { return {state_->written, state_->dropped}; }

}  // namespace penstock
