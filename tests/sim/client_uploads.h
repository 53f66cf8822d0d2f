// A multipart upload as its client knows it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/checksum.h"
#include "tests/sim/history.h"
#include "tests/sim/sim_body.h"

namespace penstock::sim {

// A part as a Complete names it, and the body of one that names these. The ETag without quotes.
inline std::string named_part(std::uint16_t number, const std::string& etag) {
  return "<Part><PartNumber>" + std::to_string(number) + "</PartNumber><ETag>" + etag +
         "</ETag></Part>";
}
inline std::string complete_body(const std::string& parts) {
  return "<CompleteMultipartUpload>" + parts + "</CompleteMultipartUpload>";
}

struct ClientUpload {
  std::string key;
  std::string id;
  Operation operation;  // what a Complete does: value and condition
  Value turn = 0;       // the headers of its own, see History
  std::vector<std::pair<std::string, std::string>> headers;  // of each Complete
  std::string manifest;
  std::string digests;  // raw MD5s of the parts
  std::vector<History::Segment> segments;
  std::vector<std::string> etags;  // of the parts 1, 2, …; none: nothing can be completed
  std::string replaced;            // ETag of what was part 1 before; empty if nothing was
  bool certain = true;             // no part of other bytes may still take a named one's place
  int running = 0;

  // What was answered so far.
  SimMicros first_call = -1;
  std::optional<SimMicros> applied;  // the earliest answer that says so
  std::optional<SimMicros> aborted;
  bool unknown = false;

  void name_part(std::uint16_t number, const std::string& bytes) {
    const auto digest = penstock::md5(as_bytes(bytes));
    digests.append(reinterpret_cast<const char*>(digest.data()), digest.size());
    manifest += named_part(number, hex_md5(bytes));
    etags.push_back(quoted(hex_md5(bytes)));
  }
  void take(std::vector<History::Segment> more) {
    segments.insert(segments.end(), more.begin(), more.end());
  }
};

}  // namespace penstock::sim
