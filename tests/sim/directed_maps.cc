// The map's source (server/map_source/README.md): it is away, stalls, comes back older or forks,
// and drivers die between two steps.
#include "placement/map_change.h"
#include "tests/sim/map_stage.h"

namespace penstock::sim {
namespace {

using Map = MapStage::Map;

constexpr SimMicros kLooks = 40 * kSecond;  // by then each process has asked all volumes

// Everybody is at the head, which knows of this change.
void expect_agreement(MapStage& stage, int change, const char* when) {
  stage.expect(stage.run_until([&] { return stage.agree(); }),
               std::string("volumes and gateways do not come to one map ") + when);
  const Map head = stage.source().head().map;
  stage.expect(head && MapStage::knows_of(*head, change), std::string("a change is lost ") + when);
  stage.expect_served(when);
}

bool refused(const Result<MapChanged>& changed, Errc code) {
  return !changed && changed.error().code == code;
}

}  // namespace

// It has put its map to the source, and to one volume or to none.
Violations driver_dies_behind_one_volume(SimClusters& clusters) {
  MapStage stage(clusters, 4, 2);
  int change = 0;
  for (const std::size_t reached : {1, 0}) {
    const auto changed = stage.change(stage.look(), ++change, 0, reached);
    stage.expect(changed && !changed->installed.reached, "a driver does not die where it should");
    expect_agreement(stage, change, "behind a driver that died");
  }
  return stage.violations;
}

// A map was left behind at one volume and is not the head of the source.
Violations map_of_one_volume_counts_nowhere(SimClusters& clusters) {
  MapStage stage(clusters, 4, 2);
  stage.source().state = SimMapSource::State::away;
  const auto orphan = std::make_shared<const ClusterMap>(MapStage::next_of(stage.map(), 1));
  const Deadline soon = stage.gateway(0).clock().boot() + limits::kOperationDeadline;
  VolumeClients one = stage.links();
  one.resize(1);
  const auto left = stage.wait(install_map(orphan, one, stage.gateway(0).clock(), soon));
  stage.expect(left && left->adopted.size() == 1, "a volume does not adopt a map");
  const auto spreads = [&] {
    return stage.map_of_gateway(0)->epoch >= orphan->epoch ||
           stage.map_of_gateway(1)->epoch >= orphan->epoch ||
           stage.map_of_volume(1)->epoch >= orphan->epoch;
  };
  for (const auto state : {SimMapSource::State::away, SimMapSource::State::sound}) {
    stage.source().state = state;
    stage.run_for(kLooks);
    stage.expect(!spreads(), "a map that one volume holds is followed");
    stage.expect_served("beside a volume with a map of its own");
  }
  const auto changed = stage.change(stage.look(), 2);
  stage.expect(changed && changed->map->epoch > orphan->epoch,
               "the next map is not newer than one that was left behind");
  expect_agreement(stage, 2, "after a map was left behind");
  return stage.violations;
}

// Two drivers look at the same time; both change what they saw.
Violations drivers_compare_what_they_saw(SimClusters& clusters) {
  MapStage stage(clusters, 4, 2);
  const MapLook one = stage.look();
  const MapLook other = stage.look();
  stage.expect(stage.change(one, 1).has_value(), "a map is not changed");
  stage.expect(refused(stage.change(other, 2), Errc::busy),
               "a map is replaced that its driver has not seen");
  expect_agreement(stage, 1, "of two drivers");
  return stage.violations;
}

// The source is restored from a backup, or wiped.
Violations older_source_changes_nothing(SimClusters& clusters) {
  MapStage stage(clusters, 4, 2);
  const Map first = stage.source().head().map;
  stage.expect(stage.change(stage.look(), 1).has_value(), "a map is not changed");
  expect_agreement(stage, 1, "of one driver");
  int change = 1;
  for (const Map& old : {first, Map()}) {
    const Epoch before = stage.map_of_gateway(0)->epoch;
    stage.source().put_back(old);
    stage.run_for(kLooks);
    stage.expect(stage.map_of_gateway(0)->epoch == before, "the map goes back with its source");
    stage.expect_served("beside a source that came back older");
    stage.expect(refused(stage.change(stage.look(), 9), Errc::unavailable),
                 "a map is made of one that does not count any more");
    stage.expect(stage.restore().has_value(), "a source cannot be restored");
    expect_agreement(stage, change, "after the source was restored");
    ++change;
    stage.expect(stage.change(stage.look(), change).has_value(), "a map is not changed again");
    expect_agreement(stage, change, "after the source was restored and changed");
  }
  return stage.violations;
}

// It refuses calls, or takes them and does not answer; a change falls into that.
Violations source_is_away_for_a_while(SimClusters& clusters) {
  MapStage stage(clusters, 4, 2);
  int change = 0;
  for (const auto state : {SimMapSource::State::away, SimMapSource::State::stalled}) {
    const MapLook seen = stage.look();
    stage.source().state = state;
    const bool changed = stage.change(seen, ++change).has_value();
    stage.expect(!changed, "a source that does not answer changes a map");
    stage.run_for(kLooks);
    stage.expect_served("while the source is away");
    stage.expect(refused(stage.change(stage.look(), 9), Errc::unavailable),
                 "a map is changed without its source");
    stage.source().state = SimMapSource::State::sound;
    // What a stalled source was asked for has happened.
    if (state == SimMapSource::State::away) {
      stage.expect(stage.change(stage.look(), change).has_value(), "a source does not come back");
    }
    expect_agreement(stage, change, "after the source came back");
  }
  return stage.violations;
}

namespace {

// Half of the volumes, so that neither map is held, or none: only gateways may have followed.
void fork_and_mend(MapStage& stage, std::size_t winner, bool halves) {
  stage.source().fork();
  const MapLook one = stage.look(0);
  const MapLook other = stage.look(1);
  const std::size_t reached = halves ? 3 : MapStage::kAll;
  stage.expect(stage.change(one, 1, 0, reached).has_value(), "a map is not changed");
  // This driver dies; the servers that ask its half go on with its map.
  stage.expect(stage.change(other, 2, 1, 0).has_value(), "the other half changes no map");
  stage.run_for(kLooks);
  stage.expect_served("beside a source that forked");
  stage.source().join(winner);
  stage.run_for(kLooks);
  stage.expect_served("after a source that forked is one again");
  stage.expect(stage.restore().has_value(), "a source that forked cannot be restored");
  stage.run_for(kLooks);
  // A gateway may stay at a map that no volume took, until the next change.
  stage.expect(stage.change(stage.look(), 3).has_value(),
               "a map is not changed after a source that forked was restored");
  expect_agreement(stage, 3, "after a source that forked was restored");
  const bool known = MapStage::knows_of(*stage.source().head().map, 1);
  stage.expect(halves || known, "a map that volumes held is lost with a half of the source");
}

}  // namespace

// Two halves of it go on by themselves, and one driver at each changes the same map. What the
// volumes hold counts, whichever half is left.
Violations forked_source_is_mended(SimClusters& clusters) {
  Violations all;
  for (const std::size_t winner : {0, 1}) {
    for (const bool halves : {false, true}) {
      MapStage stage(clusters, 6, 2);
      fork_and_mend(stage, winner, halves);
      all.insert(all.end(), stage.violations.begin(), stage.violations.end());
    }
  }
  return all;
}

// Volumes join while others are down, and while the source comes and goes.
Violations volumes_join_by_their_source(SimClusters& clusters) {
  MapStage stage(clusters, 4, 2);
  MapVolume entry = joining_entry();
  entry.host = "new";
  const std::size_t joining = stage.add_server(entry);
  stage.kill(1);
  const MapLook seen = stage.look();
  auto next = add_volumes(*seen.verdict.follow, {entry});
  stage.expect(next.has_value(), "a volume cannot join");
  if (!next) return stage.violations;
  stage.expect(stage.change_to(seen, std::move(*next), 0, 1).has_value(), "a map is not changed");
  stage.source().state = SimMapSource::State::away;
  stage.start(1);
  stage.run_for(kLooks);
  stage.source().state = SimMapSource::State::sound;
  expect_agreement(stage, 0, "after a volume has joined");
  const Map own = stage.map_of_volume(joining);
  stage.expect(own && own->find(entry.id) != nullptr, "a volume that joined does not know it");
  return stage.violations;
}

}  // namespace penstock::sim
