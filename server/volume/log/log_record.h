// One record of a volume's log: all that one group commit makes durable. Bodies of small objects
// first, then the changes of rows, which name them:
//
//   u32 bytes of the bodies | bodies | changes, each: u8 1 put, 2 remove | text key | text value
//
// (no value in a removal). It lies in one frame (log_frames.h) and its head is before it. A body
// stays where its record put it, for as long as a row names that place.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

// Where a body lies. Its length is in the value of its register.
struct BodyPlace {
  std::uint64_t file = 0;    // number of the log file, from 1 on; 0: no body
  std::uint32_t offset = 0;  // in the file
  std::uint32_t crc = 0;     // body_crc()
  auto operator<=>(const BodyPlace&) const = default;
};

// A body in the wrong place, or of another update, does not match.
std::uint32_t body_crc(const OpId& op_id, std::string_view bytes);

// A record while it is made, by one thread. It knows where it will lie; VolumeLog::begin() makes
// it, VolumeLog::append() writes it, once.
class LogRecord {
 public:
  // Takes a copy. Pre: the bytes are within those asked for in begin().
  BodyPlace add_body(const OpId& op_id, std::string_view bytes);
  // A row names this body, or stops to: `bytes` is what both would take if they were moved. Pre:
  // there is a body at `place`.
  void retain(const BodyPlace& place, std::size_t bytes);
  void release(const BodyPlace& place, std::size_t bytes);

  std::uint64_t number() const { return number_; }
  // Of its bodies, with what is before them.
  std::size_t bytes() const { return bytes_.size(); }
  // How many live bytes each file gains or loses.
  const std::map<std::uint64_t, std::int64_t>& live_changes() const { return live_; }

 private:
  friend class VolumeLog;  // says where it lies, and takes its bytes
  std::uint64_t number_ = 0;
  std::uint64_t file_ = 0;
  std::uint64_t offset_ = 0;  // of its frame
  std::string bytes_;         // its frame: room for the head, then what it holds
  std::map<std::uint64_t, std::int64_t> live_;
};

// A change of a row, as it is in a record.
struct LoggedChange {
  std::string_view key;
  std::string_view value;
  bool removes = false;
};
void write_logged_put(std::string& out, std::string_view key, std::string_view value);
void write_logged_removal(std::string& out, std::string_view key);

// `payload`: what a frame holds. Views point into it. Errors: corrupt - it is no record, or some
// change is cut; those of `visit`.
Result<> read_record(std::string_view payload,
                     const std::function<Result<>(const LoggedChange&)>& visit);

}  // namespace penstock
