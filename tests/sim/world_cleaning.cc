// Background work, when all is quiet: it must leave no hint, no orphan and no upload behind.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "tests/sim/graces.h"
#include "tests/sim/world.h"

namespace penstock::sim {
namespace {

constexpr SimMicros kCleanLimit = 300 * kSecond;
constexpr SimMicros kFirstLook = 12 * kSecond;  // each job has its turn
constexpr SimMicros kLookAgain = 5 * kSecond;
constexpr SimMicros kJumpEvery = kFirstLook + kLookAgain;

Awaitable<void> finish_background(std::vector<std::shared_ptr<SimGateway>> gateways, bool* ended) {
  for (const auto& gateway : gateways) {
    gateway->background().stop();
    co_await gateway->background().finish();
  }
  *ended = true;
}

}  // namespace

// All clocks show the same time from now on, so much behind the start of the world.
void World::set_clocks(Duration after) {
  const WallTime now = start_ + after;
  for (const auto& volume : volumes_) volume->clock().jump((now - volume->clock().wall()).count());
  for (const auto& gateway : gateways_) {
    gateway->clock().jump((now - gateway->clock().wall()).count());
  }
}

// Clocks are put right and jump, so that every hint is due, every upload expires and, once it has
// ended, is forgotten; then the background work has a while to leave nothing behind.
void World::clean_up() {
  constexpr int kJumps = 4;
  const SimMicros jump = (2 * graces::kUploadEnd).count();
  const SimMicros end = time_.now() + kCleanLimit;
  bool clean = false;
  int jumps = 0;
  for (SimMicros next_jump = 0; !clean && time_.now() < end;) {
    const bool jumped = jumps < kJumps && time_.now() >= next_jump;
    if (jumped) {
      set_clocks(Duration(++jumps * jump));
      next_jump = time_.now() + kJumpEvery;
    }
    time_.run_until([] { return false; }, time_.now() + (jumped ? kFirstLook : kLookAgain));
    bool looked = false;
    boost::asio::co_spawn(time_.io(), look_for_leftovers(looked), boost::asio::detached);
    if (!time_.run_until([&] { return looked; }, time_.now() + kQuietLimit)) {
      return history_.violation("nobody can tell what is left behind");
    }
    clean = left_.told && left_.waiting.empty();
    if (!left_.missing.empty()) break;
  }
  for (const auto& lines : {left_.waiting, left_.missing}) {
    for (std::size_t i = 0; i < lines.size() && i < 5; ++i) history_.violation(lines[i]);
  }
  if (!left_.told) history_.violation("not everything could be looked at for what is left behind");
}

Awaitable<void> World::look_for_leftovers(bool& done) {
  const auto gateway = pick_gateway();
  auto bucket = co_await gateway->index().bucket(
      SimClient::kBucket, gateway->clock().boot() + Duration(limits::kOperationDeadline));
  std::shared_ptr<const Bucket> known;
  if (bucket) known = std::move(*bucket);
  left_ = co_await find_leftovers(gateway->background_context(), volumes_, std::move(known),
                                  history_.keys());
  done = true;
}

void World::stop_background() {
  bool ended = false;
  boost::asio::co_spawn(time_.io(), finish_background(gateways_, &ended), boost::asio::detached);
  if (!time_.run_until([&] { return ended; }, time_.now() + kQuietLimit)) {
    history_.violation("background work does not stop");
  }
}

}  // namespace penstock::sim
