// What a server says of itself to whoever looks after the cluster (wire::Operation::describe), as
// JSON: the writer and the reader. Keys that a reader does not know are passed over, those that it
// misses stay empty: servers of several releases run side by side. Pure. Thread-safety: any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"
#include "penstock/types.h"
#include "penstock/volume_client.h"

namespace penstock {

struct DescribedVolume {
  VolumeId id;  // zero: it could not be opened
  std::string path;
  VolumeStatus status;
  std::uint64_t damaged_reads = 0;  // found a fragment of it damaged, since its server began
};
// A job of the background: the pass under way, or the last one.
struct DescribedJob {
  std::string what;
  bool running = false;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  double per_second = 0;
  Duration since{};  // it began so long ago or, if it does not run, ended
};

// A gateway that is connected to the server.
struct DescribedGateway {
  std::string name;     // where it says that it listens
  std::string address;  // where it calls from
  Epoch epoch;          // of its map, as of its last call; zero: none
  Duration connected_for{};
};

struct ServerDescription {
  std::string version;
  std::string host;
  std::string zone;
  WallTime wall{};  // of its clock, when it answered
  Duration runs_for{};
  bool leaving = false;
  Epoch epoch;         // of the map that it follows; zero: none
  std::string digest;  // of that map, hexadecimal
  std::vector<DescribedVolume> volumes;
  std::vector<DescribedJob> jobs;
  std::vector<DescribedGateway> gateways;
  std::vector<std::string> suspects;  // names of volumes that it gets no answers of
  std::vector<std::string> apart;     // of those that answer, and hold another map than it follows
};

std::string description_text(const ServerDescription& server);
// Errors: corrupt - not a JSON object, or a known key of another type.
Result<ServerDescription> read_description(std::string_view text);

}  // namespace penstock
