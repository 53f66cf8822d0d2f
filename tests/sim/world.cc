#include "tests/sim/world.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cassert>

namespace penstock::sim {
namespace {

constexpr SimMicros kSecond = 1'000'000;
constexpr SimMicros kFaultsUntil = 20 * kSecond;
constexpr SimMicros kLoadLimit =
    600 * kSecond;  // every operation has a deadline of 30 s: nothing may hang longer
constexpr SimMicros kQuietLimit = 300 * kSecond;

}  // namespace

World::World(std::uint64_t seed, SimClusters& clusters) : seed_(seed), random_(seed) {
  build(clusters);
}

World::~World() {
  // What waits in a volume's queue keeps the volume alive: it ends before the world does.
  constexpr SimMicros kLastEnds = 60 * kSecond;
  time_.run_until([] { return false; }, time_.now() + kLastEnds);
  time_.drop_events();
}

void World::build(SimClusters& clusters) {
  constexpr std::uint32_t kSizes[] = {3, 4, 5, 6, 6, 6, 12};
  const auto count = kSizes[static_cast<std::size_t>(random_.between(0, 6))];
  const auto variant = random_.between(0, SimClusters::kVariants - 1);
  cluster_ = &clusters.get(count, static_cast<std::uint32_t>(variant));
  losses_left_ = cluster_->map->policy.losses_survived();
  direct_ = random_.chance(0.25);
  faults_.lose = random_.chance(0.7) ? static_cast<double>(random_.between(0, 80)) / 1000 : 0;
  faults_.duplicate = random_.chance(0.5) ? 0.05 : 0;
  faults_.slow = random_.chance(0.7) ? 0.05 : 0;
  for (const auto& entry : cluster_->map->volumes) {
    volumes_.push_back(std::make_shared<SimVolume>(time_, random_.bits(), entry, cluster_->map));
    const auto formatted = volumes_.back()->format();
    assert(formatted);
    const auto started = volumes_.back()->start();
    assert(started);
    (void)formatted;
    (void)started;
  }
  const auto gateways = direct_ ? 1 : random_.between(1, 3);
  for (int i = 0; i < gateways; ++i) add_gateway();
}

std::shared_ptr<SimGateway> World::add_gateway() {
  std::vector<std::shared_ptr<VolumeClient>> links;
  std::vector<std::shared_ptr<Wire>> wires;
  for (const auto& volume : volumes_) {
    wires.push_back(std::make_shared<Wire>());
    links.push_back(
        std::make_shared<SimLink>(time_, random_, faults_, volume, wires.back(), direct_));
  }
  gateways_.push_back(std::make_shared<SimGateway>(time_, random_.bits(), *cluster_, std::move(links),
                                                   std::move(wires)));
  return gateways_.back();
}

std::shared_ptr<SimGateway> World::pick_gateway() {
  std::vector<std::shared_ptr<SimGateway>> alive;
  for (const auto& gateway : gateways_) {
    if (gateway->alive()) alive.push_back(gateway);
  }
  return alive[static_cast<std::size_t>(
      random_.between(0, static_cast<std::int64_t>(alive.size()) - 1))];
}

// ---- faults: one at a time is planned, each plans the next

void World::schedule_faults() {
  time_.after(random_.between(100'000, 3 * kSecond), [this] {
    if (!faults_on_ || time_.now() > kFaultsUntil) return;
    plan_fault();
    schedule_faults();
  });
}

void World::plan_fault() {
  const auto dice = random_.between(0, 99);
  const auto victim =
      static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(volumes_.size()) - 1));
  if (dice < 40) {
    crash_volume(victim);
  } else if (dice < 50) {
    kill_gateway();
  } else if (dice < 70) {
    cut_wire();
  } else if (dice < 80) {
    volumes_[victim]->clock().jump(random_.between(-3600 * kSecond, 3600 * kSecond));
  } else if (dice < 87) {
    pick_gateway()->clock().jump(random_.between(-3600 * kSecond, 3600 * kSecond));
  } else {
    damage();
  }
}

// How many volumes are beyond use for now; faults keep a majority and k + 1 volumes possible most
// of the time.
void World::crash_volume(std::size_t index) {
  auto& volume = *volumes_[index];
  if (!volume.running()) return;
  if (random_.chance(0.6)) {
    volume.crash();
  } else {
    volume.kill();
  }
  restart_volume(index, random_.between(1'000, 5 * kSecond));
}

void World::restart_volume(std::size_t index, SimMicros delay) {
  time_.after(delay, [this, index] {
    auto& volume = *volumes_[index];
    if (volume.running() || volume.lost()) return;
    const auto started = volume.start();
    if (!started)
      history_.violation("volume " + std::to_string(index) +
                         " does not start: " + started.error().context);
  });
}

void World::kill_gateway() {
  if (direct_ || gateways_.size() > 8) return;
  pick_gateway()->kill();
  add_gateway();
}

void World::cut_wire() {
  if (direct_) return;
  auto gateway = pick_gateway();
  const auto& wire = gateway->wires()[static_cast<std::size_t>(
      random_.between(0, static_cast<std::int64_t>(volumes_.size()) - 1))];
  const bool requests = random_.chance(0.5);
  (requests ? wire->cut_requests : wire->cut_answers) = true;
  time_.after(random_.between(10'000, 4 * kSecond), [gateway, wire, requests] {
    if (gateway->alive()) (requests ? wire->cut_requests : wire->cut_answers) = false;
  });
}

// Up to p volumes are damaged for good: lost, or failing every call from the n-th on.
void World::damage() {
  if (losses_left_ == 0) return;
  const auto victim =
      static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(volumes_.size()) - 1));
  auto& volume = *volumes_[victim];
  if (volume.lost()) return;
  --losses_left_;
  if (random_.chance(0.5)) {
    volume.lose();
  } else {
    volume.fail_from_now_on();
  }
}

void World::heal() {
  faults_on_ = false;
  faults_ = NetworkFaults{};
  for (const auto& gateway : gateways_) {
    if (!gateway->alive()) continue;
    for (const auto& wire : gateway->wires()) wire->cut_requests = wire->cut_answers = false;
  }
  for (std::size_t i = 0; i < volumes_.size(); ++i) restart_volume(i, 1'000);
}

// ---- the run

Awaitable<void> World::make_bucket(bool& done) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    auto request = SimClient::request("PUT", "");
    auto gateway = pick_gateway();
    auto answer = co_await gateway->call(std::move(request), "");
    if (answer && answer->status == 200) break;
  }
  done = true;
}

bool World::run_until_finished(const std::vector<std::shared_ptr<SimClient>>& clients,
                               SimMicros limit) {
  auto all_done = [&] {
    return std::all_of(clients.begin(), clients.end(),
                       [](const auto& client) { return client->finished(); });
  };
  return time_.run_until(all_done, time_.now() + limit);
}

Verdict World::run() {
  Verdict verdict;
  bool bucket_made = false;
  boost::asio::co_spawn(time_.io(), make_bucket(bucket_made), boost::asio::detached);
  if (!time_.run_until([&] { return bucket_made; }, kLoadLimit))
    history_.violation("CreateBucket hangs");
  ClientPlan plan;
  for (int i = 0; i < random_.between(1, 3); ++i) plan.keys.push_back("key" + std::to_string(i));
  plan.operations = static_cast<int>(random_.between(6, 14));
  std::vector<std::shared_ptr<SimClient>> clients;
  auto pick = [this] { return pick_gateway(); };
  const auto count = random_.between(2, 4);
  for (int i = 0; i < count; ++i)
    clients.push_back(std::make_shared<SimClient>(time_, random_, history_, pick, plan));
  for (const auto& client : clients)
    boost::asio::co_spawn(time_.io(), client->run(), boost::asio::detached);
  schedule_faults();
  if (!run_until_finished(clients, kLoadLimit))
    history_.violation("an operation hangs past its deadline");
  heal();
  // Quiet: every operation under way ends, then every key is read.
  time_.run_until([] { return false; }, time_.now() + 45 * kSecond);
  clients.resize(1);
  boost::asio::co_spawn(time_.io(), clients[0]->read_all(), boost::asio::detached);
  if (!run_until_finished(clients, kQuietLimit))
    history_.violation("a read hangs after all faults are over");
  final_checks(verdict);
  return verdict;
}

void World::final_checks(Verdict& verdict) {
  for (const auto& gateway : gateways_) {
    if (gateway->alive() && gateway->budget().used_bytes() != 0) {
      history_.violation("a gateway at rest holds " +
                         std::to_string(gateway->budget().used_bytes()) + " bytes of its budget");
    }
  }
  verdict.violations = history_.check();
  verdict.operations = history_.operation_count();
  verdict.trace = time_.trace_hash();
  verdict.events = time_.events_run();
  verdict.simulated = time_.now();
}

Verdict run_seed(std::uint64_t seed, SimClusters& clusters) {
  World world(seed, clusters);
  return world.run();
}

}  // namespace penstock::sim
