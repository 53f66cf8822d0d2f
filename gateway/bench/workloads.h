// The workloads that `penstock bench` knows: what each sends, over how many connections.
// Constants; no behaviour beyond finding them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/bench/data_sets.h"
#include "penstock/result.h"

namespace penstock {

struct Workload {
  enum class Kind : std::uint8_t {
    whole,           // GETs of whole objects
    head,            // HEADs
    aligned_ranges,  // GETs of ranges of `bytes`, aligned to them
    random_ranges,   // … anywhere
    put,             // PUTs of objects of `bytes`
    parts,           // one multipart upload: parts of `bytes`, `total_bytes` at scale 1
    checkpoint,      // an object a connection, by one PUT each, then read back
    shards,          // an object a connection, by parts of `bytes`, then read back by ranges
    list,            // pages of `bytes` keys
    mixed,           // 45 GET, 30 HEAD, 15 PUT, 10 DELETE of a hundred
    idle,            // nothing: what a server costs that nobody uses
    training,        // emulated accelerators
  };
  enum class Payload : std::uint8_t { plain, crc64_trailer, signed_sha256 };

  std::string_view name;
  std::string_view what;  // one line, for people
  Kind kind = Kind::whole;
  SetName set = SetName::none;
  std::uint32_t connections = 1;
  std::uint64_t bytes = 0;
  std::uint64_t total_bytes = 0;
  Payload payload = Payload::plain;
  bool passes = false;             // measured by two passes over the set, not by time
  bool half_rate = false;          // open loop at half of what the workload before it reached
  bool delimiter = false;          // list: by folders
  bool usual = true;               // part of a run that names none
  std::string_view training = {};  // the emulated model (accelerators.h)
};

std::span<const Workload> all_workloads();

// Those that `names` mean, in the table's order: a name; else the beginning of a family (W6: W6get,
// W6head), "mlperf", "all"; of no names the usual ones. Errors: invalid - no workload is called so.
Result<std::vector<Workload>> find_workloads(const std::vector<std::string>& names);

// One line for each workload and family.
std::string describe_workloads();

inline bool writes(const Workload& workload) {
  using Kind = Workload::Kind;
  return workload.kind == Kind::put || workload.kind == Kind::parts ||
         workload.kind == Kind::checkpoint || workload.kind == Kind::shards ||
         workload.kind == Kind::mixed;
}

}  // namespace penstock
