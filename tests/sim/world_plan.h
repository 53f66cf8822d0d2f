// What the seed decides before a world begins: its shape, what its clients do, and which faults it
// meets how often. Every seed is one of a few kinds, which each go deep into a part of the store.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "penstock/limits.h"
#include "server/background/removal/background_context.h"
#include "tests/sim/byte_network.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_volume.h"

namespace penstock::sim {

enum class Fault : std::uint8_t {
  crash,         // a volume loses power, or its process dies
  crash_at,      // it loses power at its nth change from now
  crash_all,     // all volumes at once; in one process the gateway, too
  kill_gateway,  // another one takes its place
  cut_wire,      // one way between a gateway and a volume, for a while
  cut_off,       // a gateway from several volumes, for a while
  jump_volume,   // a clock jumps by up to an hour
  jump_gateway,
  disk_error,  // the nth call of some kind fails
  disk_full,   // for a while
  damage,      // a volume is lost for good, or a part of what it holds
  hang,        // calls of some kinds do not return, for a while or until the volume is closed
  break_off,   // the connections between two machines, or they become slow for a while
  pause,       // the virtual machine of a gateway stands still for a while
};
inline constexpr std::size_t kFaults = 14;

// What the seeds are drawn from.
enum class WorldShape : std::uint8_t { any, local, cluster };

struct WorldOptions {
  WorldShape shape = WorldShape::any;
  bool pauses = false;  // of gateways of a cluster
};

struct WorldPlan {
  enum class Kind : std::uint8_t { bodies, registers, multipart, buckets, lists };
  Kind kind = Kind::bodies;
  bool cluster = false;  // servers and gateways of their own, with connections between them
  std::uint32_t servers = 0;
  std::uint32_t volumes_each = 1;  // on a server
  std::uint32_t volumes = 3;
  std::uint32_t variant = 0;
  int gateways = 1;
  bool direct = false;        // gateway and volumes in one process
  bool replaces = false;      // a volume by a new one
  bool reads_slowly = false;  // when all faults are over: what is overwritten meanwhile
  SimVolumeOptions volume;
  std::uint32_t page_rows = RemovalOptions().page_rows;
  std::size_t chain_max = limits::kChainMax;  // as SimCluster has it
  NetworkFaults network;
  StreamFaults streams;  // of a cluster
  int clients = 2;
  ClientPlan client;
  std::array<int, kFaults> fault_weights{};
  SimMicros fault_every = 3'000'000;  // at most
  SimMicros outage_max = 5'000'000;
  bool mends = true;  // what is still away when the last fault has struck comes back
};

// Within this everything must end when all faults are over.
inline constexpr SimMicros kQuietLimit = 600 * kSecond;

WorldPlan draw_plan(SimRandom& random, const WorldOptions& options);
// "multipart, 6 volumes on 3 servers, 2 gateways".
std::string describe(const WorldPlan& plan);

}  // namespace penstock::sim
