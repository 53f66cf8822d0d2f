// One volume is replaced while clients write and faults go on: the product's own driver, in one
// gateway at a time.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "tests/sim/world.h"

namespace penstock::sim {
namespace {

// An upload that is being completed is rolled forward when it is old enough; if its ballot is from
// a clock that was an hour ahead, that is an hour later.
constexpr SimMicros kReplacementLimit = 5'000 * kSecond;
constexpr SimMicros kLookEvery = 10 * kSecond;
constexpr int kLooksAtStuck = 6;
constexpr Duration kSourcePatience = std::chrono::seconds(2);

}  // namespace

void World::schedule_replacement() {
  time_.after(random_.between(1'000, random_.chance(0.5) ? 50'000 : 2 * kSecond), [this] {
    if (faults_on_) replace_volume();
  });
}

// A volume that is there makes room, or one that is lost now or was damaged before.
void World::replace_volume() {
  leaving_ = any_volume();
  if (random_.chance(0.5)) {
    for (std::size_t i = 0; i < volumes_.size(); ++i) {
      if (volumes_[i]->damaged()) leaving_ = i;
    }
  }
  auto& old = *volumes_[leaving_];
  leaving_was_lost_ = old.damaged();
  if (!leaving_was_lost_ && losses_left_ > 0 && random_.chance(0.4)) {
    --losses_left_;
    leaving_was_lost_ = true;
    lose_volume(leaving_);
  }
  MapVolume joining;
  joining.id = VolumeId{random_.bits() | 1};
  joining.name = "new";
  joining.host = "new";
  const auto server = plan_.cluster ? add_server() : nullptr;
  if (server) joining.address = server->address();
  const auto fresh =
      std::make_shared<SimVolume>(time_, random_.bits(), joining, cluster_.map, plan_.volume,
                                  server ? server->host()->clock : nullptr);
  const auto formatted = fresh->format();
  const bool started = formatted && (server || fresh->start());  // a server starts its own
  if (!started) return history_.violation("a new volume does not start");
  volumes_.push_back(fresh);
  if (server) {
    server->add(fresh);
    start_server(*server);
    drive_replacement(server->work());
  } else {
    drive_replacement(plan_.direct ? pick_gateway() : add_gateway({joining.id}));
  }
  boost::asio::co_spawn(time_.io(), begin_replacement(joining), boost::asio::detached);
}

// As server/map_source/map_driver.h has it: no volume gets a map that was not the head.
Task<> World::put_to_source(SimMapSource& source, std::shared_ptr<SimClock> clock, Map map) {
  const auto handle = source.open(*clock, 0);
  const Deadline until = clock->boot() + kSourcePatience;
  CO_TRY(head, co_await handle->read(until));
  if (head.map->digest == map->digest) co_return Result<>{};
  if (head.map->epoch >= map->epoch) co_return fail(Errc::busy, "the source has a newer map");
  CO_TRY(revision, co_await handle->replace(std::move(map), head.revision, until));
  (void)revision;
  co_return Result<>{};
}

// A process that begins to drive goes on from the head.
void World::drive_replacement(std::shared_ptr<SimGateway> driver) {
  driver_ = std::move(driver);
  const auto followed = source_ ? driver_->membership().adopt(source_->head().map) : true;
  if (!followed) history_.violation("the head cannot be followed: " + followed.error().context);
  driver_->replacement().start(time_.io().get_executor());
}

// Whoever asked for it asks again while the driver knows of none: what was begun may be known to
// one volume alone when its driver dies.
Awaitable<void> World::begin_replacement(MapVolume joining) {
  const VolumeId leaving = volumes_[leaving_]->id();
  while (!is_replaced()) {
    const auto driver = driver_;
    if (!change_of(*driver->background_context().membership.map())) {
      auto link = driver->connect(joining);
      MapVolume entry = joining;
      const auto begun =
          co_await driver->replacement().begin(leaving, std::move(entry), std::move(link));
      (void)begun;
    }
    const auto soon = driver->clock().boot() + Duration(kSecond);
    co_await driver->clock().sleep_until(soon);
  }
}

bool World::is_replaced() const {
  const auto map = driver_->background_context().membership.map();
  return map->find(volumes_.back()->id()) != nullptr &&
         map->find(volumes_[leaving_]->id()) == nullptr;
}

bool World::end_replacement() {
  const auto stuck = [this] {
    const std::string trouble = driver_->replacement().status().trouble;
    return trouble.find("can be read") != std::string::npos ||
           trouble.find("no volume is left") != std::string::npos;
  };
  const SimMicros end = time_.now() + kReplacementLimit;
  for (int looks = 0; !is_replaced(); ++looks) {
    if (looks > kLooksAtStuck && losses_left_ < cluster_.map->policy.losses_survived() && stuck()) {
      return false;
    }
    if (time_.run_until([this] { return is_replaced(); }, time_.now() + kLookEvery)) break;
    if (time_.now() < end) continue;
    history_.violation("volume " + std::to_string(leaving_) +
                       " is not replaced: " + driver_->replacement().status().trouble);
    return false;
  }
  lose_volume(leaving_);
  if (leaving_was_lost_) ++losses_left_;
  return true;
}

}  // namespace penstock::sim
