#include "tests/sim/map_world.h"

#include <algorithm>
#include <set>
#include <utility>

#include "placement/map_change.h"
#include "tests/sim/map_stage.h"

namespace penstock::sim {
namespace {

using Map = MapStage::Map;
using State = SimMapSource::State;

constexpr std::uint32_t kSizes[] = {3, 4, 5, 6, 6, 7};
constexpr int kStepsMax = 16;
constexpr int kJoiningMax = 2;
const std::string kKey = "key";

class MapWorld {
 public:
  MapWorld(std::uint64_t seed, SimClusters& clusters)
      : random_(seed),
        volumes_(kSizes[random_.below(std::size(kSizes))]),
        stage_(clusters, volumes_, static_cast<int>(random_.between(1, 3))),
        losses_(stage_.map().policy.losses_survived()) {}
  Violations run();

 private:
  void step();
  void change_source();
  void change_map();
  void let_two_change();
  void add_server();
  void kill_or_start();
  std::size_t half() { return random_.below(SimMapSource::kHalves); }
  std::size_t reached();
  void judge(const Result<MapChanged>& changed, int change);
  void write_and_read();
  bool is_calm();
  void end();

  SimRandom random_;
  const std::uint32_t volumes_;
  MapStage stage_;
  const std::size_t losses_;
  std::set<std::size_t> down_;
  int changes_ = 0;
  int joined_ = 0;
  std::set<int> acknowledged_;          // changes whose map has reached majorities
  std::set<std::string> possible_{""};  // what the key may hold
  int written_ = 0;
};

void MapWorld::change_source() {
  SimMapSource& source = stage_.source();
  switch (random_.between(0, 5)) {
    case 0:
      source.state = State::away;
      return;
    case 1:
      source.state = State::stalled;
      return;
    case 2:
      if (!source.forked()) return source.fork();
      return source.join(half());
    case 3:
      return source.put_back(random_.chance(0.3) ? nullptr : random_.pick(source.past()), half());
    default:
      source.state = State::sound;
      return;
  }
}

// How many volumes a driver tells before it dies.
std::size_t MapWorld::reached() {
  if (random_.chance(0.5)) return MapStage::kAll;
  return random_.below(volumes_ + 1);
}

// Told its success, somebody relies on it.
void MapWorld::judge(const Result<MapChanged>& changed, int change) {
  if (changed && changed->installed.reached) acknowledged_.insert(change);
}

void MapWorld::change_map() {
  const std::size_t at = half();
  const int change = ++changes_;
  judge(stage_.change(stage_.look(at), change, at, reached()), change);
}

// They have seen the same; one of them at most changes it, if they ask the same half.
void MapWorld::let_two_change() {
  const std::size_t one = half(), other = half();
  const MapLook first = stage_.look(one);
  const MapLook second = stage_.look(other);
  const int change = ++changes_;
  judge(stage_.change(first, change, one, reached()), change);
  if (random_.chance(0.5)) stage_.run_for(random_.between(0, 2 * kSecond));
  const int next = ++changes_;
  judge(stage_.change(second, next, other, reached()), next);
}

void MapWorld::add_server() {
  if (joined_ >= kJoiningMax) return;
  MapVolume entry;
  entry.id = VolumeId{random_.bits() | 1};
  entry.name = "joining" + std::to_string(++joined_);
  entry.host = entry.name;
  stage_.add_server(entry);
  const std::size_t at = half();
  const MapLook seen = stage_.look(at);
  if (!seen.verdict.follow) return;
  auto next = add_volumes(*seen.verdict.follow, {entry});
  stage_.expect(next.has_value(), "a volume cannot join");
  if (next) (void)stage_.change_to(seen, std::move(*next), at, reached());
}

void MapWorld::kill_or_start() {
  const std::size_t server = random_.below(volumes_);
  if (down_.erase(server) > 0) return stage_.start(server);
  if (down_.size() >= losses_) return;
  down_.insert(server);
  stage_.kill(server);
}

// Nothing is wrong, nor was a moment ago.
bool MapWorld::is_calm() {
  const SimMapSource& source = stage_.source();
  return down_.empty() && source.state == State::sound && !source.forked() && stage_.agree();
}

void MapWorld::write_and_read() {
  const bool calm = is_calm();
  const std::string text = "text " + std::to_string(++written_);
  const int writer = static_cast<int>(random_.below(static_cast<std::size_t>(stage_.gateways())));
  const auto put = stage_.ask(writer, "PUT", kKey, text);
  stage_.expect(put.status == 200 || put.status == 503, "a PUT gets a wrong answer");
  stage_.expect(put.status == 200 || !calm, "a PUT fails although nothing is wrong");
  if (put.status == 200) possible_.clear();
  possible_.insert(text);
  const int reader = static_cast<int>(random_.below(static_cast<std::size_t>(stage_.gateways())));
  const auto got = stage_.ask(reader, "GET", kKey);
  stage_.expect(got.status == 200 || !calm, "a GET fails although nothing is wrong");
  if (got.status != 200 && got.status != 404) return;
  const std::string found = got.status == 200 ? got.body : "";
  stage_.expect(possible_.contains(found), "a GET shows \"" + found + "\", which was overwritten");
  possible_ = {found};
}

void MapWorld::step() {
  constexpr int kLast = MapStage::kChangesMax - 3;  // one more step, and one at the end
  if (changes_ >= kLast) return stage_.run_for(random_.between(0, 20 * kSecond));
  switch (random_.between(0, 9)) {
    case 0:
    case 1:
    case 2:
      return change_source();
    case 3:
    case 4:
      return change_map();
    case 5:
      return let_two_change();
    case 6:
      return add_server();
    case 7:
      return kill_or_start();
    default:
      return stage_.run_for(random_.between(0, 20 * kSecond));
  }
}

// All is there again. An operator does what the pages say until nothing is wrong.
void MapWorld::end() {
  SimMapSource& source = stage_.source();
  source.state = State::sound;
  if (source.forked()) source.join(half());
  for (const std::size_t server : std::exchange(down_, {})) stage_.start(server);
  constexpr int kTries = 4;
  for (int i = 0; i < kTries; ++i) {
    stage_.run_for(40 * kSecond);
    if (stage_.agree()) break;
    (void)stage_.restore();
  }
  // A gateway may have followed a head that was lost with its source, and no volume knows of it:
  // the next map has a higher epoch.
  if (!stage_.agree()) (void)stage_.change(stage_.look(), ++changes_);
  stage_.expect(stage_.run_until([&] { return stage_.agree(); }),
                "volumes and gateways do not come to one map");
  for (const int change : acknowledged_) {
    const bool known = MapStage::knows_of(*source.head().map, change);
    stage_.expect(known || !source.kept_its_word(),
                  "change " + std::to_string(change) + " of the map is lost");
  }
  write_and_read();
  stage_.expect_served("at the end");
}

Violations MapWorld::run() {
  const auto steps = random_.between(4, kStepsMax);
  for (int i = 0; i < steps; ++i) {
    step();
    write_and_read();
    stage_.run_for(random_.between(0, 3 * kSecond));
  }
  end();
  return std::exchange(stage_.violations, {});
}

}  // namespace

std::vector<std::string> run_map_seed(std::uint64_t seed, SimClusters& clusters) {
  MapWorld world(seed, clusters);
  return world.run();
}

}  // namespace penstock::sim
