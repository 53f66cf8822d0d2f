// One JSON line per request, to a file or to standard output. Requests only hand their line over; a
// separate thread writes it. Lines that do not fit into its bounded queue are dropped and counted,
// in the log itself as {"time":…,"dropped":N}. So a full disk, a slow reader or a pipe that nobody
// reads holds up no request.
//
// A line is written as a whole or, when the disk refuses its end, closed by the next one; so lines
// never mix. A file is created with mode 0640 (less the umask), appended to, and opened again
// by reopen() after it was moved away. A named pipe is opened when it has a reader.
// Thread-safety: any thread; stop() and the destructor from the owner's.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/http/side_thread.h"
#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

// What is known of one request; what is not, is empty and left out of the line.
struct AccessEntry {
  WallTime time{};  // of its end
  std::string_view address;
  std::string_view account;
  std::string_view access_key;
  std::string_view operation;
  std::string_view method;
  std::string_view bucket;  // any bytes: what is not UTF-8 is shown as U+FFFD
  std::string_view key;
  int status = 0;  // 0: nothing was answered
  std::string_view error;
  std::uint64_t bytes_in = 0;  // of bodies, as they were on the wire
  std::uint64_t bytes_out = 0;
  Duration took{};
  std::string_view request_id;
  Trace trace;              // its W3C trace id
  std::string_view target;  // of a request that could not be read: as it came
  std::string_view range;
  std::string_view user_agent;
  bool cut_off = false;  // the connection ended before the answer did
};
// With its newline.
std::string access_line(const AccessEntry& entry);
// A JSON string, quotes included, of any bytes.
void append_json_string(std::string& out, std::string_view bytes);

class AccessLog {
 public:
  // `target`: "stdout" or a path. Errors: io - the file cannot be opened or made.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& target);
  ~AccessLog();

  void write(const AccessEntry& entry);
  // Soon; the old file stays in use if the new one cannot be had.
  void reopen();
  // Writes what waits, for at most two seconds.
  void stop();

  struct Counts {
    std::uint64_t written = 0, dropped = 0;  // lines
  };
  Counts counts() const;

 private:
  struct State;
  explicit AccessLog(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
  std::unique_ptr<SideThread> thread_;
};

}  // namespace penstock
