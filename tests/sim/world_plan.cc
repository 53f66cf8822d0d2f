#include "tests/sim/world_plan.h"

namespace penstock::sim {
namespace {

using Kind = WorldPlan::Kind;

Kind draw_kind(SimRandom& random) {
  const auto dice = random.between(0, 99);
  if (dice < 20) return Kind::bodies;
  if (dice < 65) return Kind::registers;
  if (dice < 76) return Kind::multipart;
  if (dice < 96) return Kind::buckets;
  return Kind::lists;
}

//                                     put get rng head del copy self multi list drop make side
constexpr std::array<int, kActs> kBodies{30, 22, 8, 5, 10, 6, 4, 8, 7, 0, 0, 3};
constexpr std::array<int, kActs> kRegisters{45, 22, 0, 4, 18, 0, 6, 2, 4, 0, 0, 0};
constexpr std::array<int, kActs> kMultipart{14, 20, 4, 2, 6, 4, 2, 45, 5, 0, 0, 2};
constexpr std::array<int, kActs> kBuckets{32, 14, 0, 2, 26, 0, 0, 2, 6, 10, 10, 8};
constexpr std::array<int, kActs> kLists{35, 5, 0, 0, 20, 0, 0, 0, 40, 0, 0, 0};

void draw_clients(SimRandom& random, WorldPlan& plan) {
  ClientPlan& client = plan.client;
  plan.clients = static_cast<int>(random.between(2, 4));
  auto keys = random.between(1, 3);
  switch (plan.kind) {
    case Kind::bodies:
      client.weights = kBodies;
      client.operations = static_cast<int>(random.between(4, 10));
      break;
    case Kind::registers:
      client.weights = kRegisters;
      client.operations = static_cast<int>(random.between(9, 17));
      client.size_max = 400;
      client.think_max = random.chance(0.5) ? 2'000 : 20'000;
      client.conditional = 0.6;
      keys = 1;
      break;
    case Kind::multipart:
      client.weights = kMultipart;
      client.operations = static_cast<int>(random.between(3, 7));
      client.size_max = 40'000;
      client.think_max = 50'000;
      keys = random.between(1, 2);
      break;
    case Kind::buckets:
      client.weights = kBuckets;
      client.operations = static_cast<int>(random.between(7, 14));
      client.size_max = 600;
      client.think_max = 30'000;
      client.conditional = 0.1;
      keys = random.between(1, 2);
      break;
    case Kind::lists:
      client.weights = kLists;
      client.operations = static_cast<int>(random.between(5, 9));
      client.size_max = 300;
      client.think_max = 30'000;
      client.conditional = 0.1;
      keys = random.between(38, 60);
      break;
  }
  for (int i = 0; i < keys; ++i) client.keys.push_back("key" + std::to_string(100 + i));
}

void draw_faults(SimRandom& random, WorldPlan& plan) {
  const int breaks = plan.cluster ? 12 : 0;
  //                 crash at all gw wire off jumpv jumpg error full damage hang break pause
  plan.fault_weights = {30, 15, 3, 12, 10, 6, 6, 5, 7, 2, 9, 5, breaks, 0};
  if (random.chance(0.15)) {  // nothing but what the network does
    plan.fault_weights = {0, 0, 0, 10, 40, 20, 5, 5, 0, 0, 0, 0, 4 * breaks, 0};
  } else if (random.chance(0.15)) {  // mostly crashes
    plan.fault_weights = {50, 30, 10, 10, 0, 0, 0, 0, 0, 0, 0, 0, breaks, 0};
  }
  const bool slow = plan.client.think_max > 100'000;
  plan.fault_every = slow ? 3'000'000 : random.between(30'000, 600'000);
  plan.outage_max = slow || random.chance(0.2) ? 5'000'000 : 300'000;
  plan.mends = random.chance(0.8);
  plan.network.lose = random.chance(0.7) ? static_cast<double>(random.between(0, 80)) / 1000 : 0;
  plan.network.duplicate = random.chance(0.5) ? 0.05 : 0;
  plan.network.late = random.chance(0.5) ? 0.02 : 0;
  plan.network.slow = random.chance(0.7) ? 0.05 : 0;
}

void draw_streams(SimRandom& random, StreamFaults& streams) {
  streams.delay_max = random.chance(0.2) ? 5'000 : 500;
  streams.slow = random.chance(0.6) ? 0.03 : 0;
  streams.split = random.chance(0.5) ? 0.3 : 0;
  streams.crumbs = random.chance(0.3) ? 0.3 : 0;
  streams.breaks = random.chance(0.7) ? static_cast<double>(random.between(0, 30)) / 1000 : 0;
  streams.refuses = random.chance(0.3) ? 0.2 : 0;
  streams.half_open = random.chance(0.5) ? 0.2 : 0;
  streams.late = random.chance(0.5) ? 0.3 : 0;
  streams.flips = random.chance(0.1) ? 0.002 : 0;
  if (random.chance(0.1)) streams.bytes_per_ms = 1'000;
}

void draw_shape(SimRandom& random, WorldPlan& plan) {
  constexpr std::uint32_t kSizes[] = {3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 6, 6, 6, 7, 9, 12};
  constexpr std::uint32_t kVolumesEach[] = {1, 1, 1, 1, 2, 2, 3};
  plan.variant = static_cast<std::uint32_t>(random.below(SimClusters::kVariants));
  plan.volumes = kSizes[random.below(std::size(kSizes))];
  if (plan.cluster) {
    plan.servers = plan.volumes;
    plan.volumes_each = kVolumesEach[random.below(std::size(kVolumesEach))];
    plan.volumes = plan.servers * plan.volumes_each;
    draw_streams(random, plan.streams);
  }
  plan.direct = !plan.cluster && random.chance(0.2);
  plan.gateways = plan.direct ? 1 : static_cast<int>(random.between(1, 3));
}

}  // namespace

WorldPlan draw_plan(SimRandom& random, const WorldOptions& options) {
  constexpr SimMicros kDisks[] = {300, 2'000, 2'000, 25'000};
  WorldPlan plan;
  plan.kind = draw_kind(random);
  plan.cluster =
      options.shape == WorldShape::any ? random.chance(0.4) : options.shape == WorldShape::cluster;
  draw_shape(random, plan);
  plan.volume.disk_delay_max = kDisks[random.below(std::size(kDisks))];
  plan.volume.reserve = random.chance(0.5);
  if (plan.cluster) plan.volume.start_lease = graces::kLease;
  if (random.chance(0.5)) plan.volume.sync_max = plan.volume.disk_delay_max;
  // Small tables and pages: rows are read again, promises make room, walks take several steps.
  if (random.chance(0.3)) plan.volume.cache_bytes = limits::kKiB;
  if (random.chance(0.3)) plan.volume.promise_slots = 1;
  if (plan.volume.promise_slots == 1) plan.volume.ballot_bytes = 256;
  if (random.chance(0.3)) plan.page_rows = static_cast<std::uint32_t>(random.between(1, 3));
  plan.replaces = plan.kind != Kind::lists && random.chance(0.05);
  draw_clients(random, plan);
  draw_faults(random, plan);
  if (options.pauses && plan.cluster) plan.fault_weights.back() = 20;
  // Where a disk never takes so long that a read gives it up.
  const bool swift = plan.volume.disk_delay_max <= 2'000;
  const bool of_bodies = plan.kind == Kind::bodies || plan.kind == Kind::multipart;
  plan.reads_slowly = swift && of_bodies && random.chance(0.5);
  plan.volume.cold = random.chance(0.5);
  // Drawn aside, so that what a seed makes of all the rest stays as it was.
  SimRandom aside = random;
  if (aside.chance(0.3)) plan.chain_max = static_cast<std::size_t>(aside.between(1, 2));
  return plan;
}

std::string describe(const WorldPlan& plan) {
  constexpr const char* kNames[] = {"bodies", "registers", "multipart", "buckets", "lists"};
  const std::string servers =
      plan.cluster ? " on " + std::to_string(plan.servers) + " servers" : std::string();
  return std::string(kNames[static_cast<std::size_t>(plan.kind)]) + ", " +
         std::to_string(plan.volumes) + " volumes" + servers + ", " +
         (plan.direct ? "one process" : std::to_string(plan.gateways) + " gateways") +
         (plan.replaces ? ", one replaced" : "") +
         (plan.chain_max < limits::kChainMax ? ", short chains" : "");
}

}  // namespace penstock::sim
