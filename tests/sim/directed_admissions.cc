// R13: an old copy of a volume's directory is put back. Volume A of A, B and C takes part in what
// is acknowledged after the copy was made; then B is away, and A, as the copy has it, agrees with C
// that there is nothing.
#include "penstock/planted.h"
#include "placement/map_change.h"
#include "tests/sim/admission_stage.h"

namespace penstock::sim {
namespace {

using Map = std::shared_ptr<const ClusterMap>;

constexpr std::size_t kA = 0, kB = 1, kC = 2;
constexpr SimMicros kLong = 10 * kSecond;  // by then it has been admitted, if it ever is

// A has been started once more since, and B and C have noted that.
AdmissionStage::Copy copy_of_an_earlier_start(AdmissionStage& stage) {
  stage.kill(kA);
  const auto copy = stage.copy(kA);
  stage.start_whole(kA);
  return copy;
}

// V is acknowledged by A and B; then both are gone, and the copy lies where A was.
void acknowledge_and_put_back(AdmissionStage& stage, const AdmissionStage::Copy& copy) {
  stage.expect(stage.write_at(stage.map(), kA, kB), "a value is not acknowledged");
  stage.kill(kA);
  stage.kill(kB);
  stage.put_back(kA, copy);
}

void expect_no_answer(AdmissionStage& stage, const Map& map, const char* when) {
  const bool agreed = stage.misses(*map, kA) && stage.misses(*map, kC);
  stage.expect(!agreed, std::string("an acknowledged value is absent at a majority: an old copy "
                                    "of a volume answers ") +
                            when);
}

Map map_of(const AdmissionStage& stage) { return std::make_shared<const ClusterMap>(stage.map()); }

Map next_map(AdmissionStage& stage, Result<ClusterMap> next) {
  stage.expect(next.has_value(), "a replacement does not go on");
  return next ? std::make_shared<const ClusterMap>(std::move(*next)) : map_of(stage);
}

}  // namespace

// C, which knows better, cannot be asked yet.
Violations copy_waits_for_its_peers(SimClusters& clusters) {
  AdmissionStage stage(clusters);
  const auto copy = copy_of_an_earlier_start(stage);
  acknowledge_and_put_back(stage, copy);
  Wire& wire = stage.wire(kA, kC);
  wire.cut_requests = true;
  stage.start(kA);
  for (const SimMicros time : {100 * kMillisecond, kLong}) {
    stage.run_for(time);
    expect_no_answer(stage, map_of(stage), "before anybody was asked");
  }
  wire.cut_requests = false;
  stage.run_for(kLong);
  expect_no_answer(stage, map_of(stage), "although a peer knows better");
  return stage.violations;
}

// What C says does not arrive; what it is told does.
Violations copy_asks_before_it_serves(SimClusters& clusters) {
  AdmissionStage stage(clusters);
  const auto copy = copy_of_an_earlier_start(stage);
  acknowledge_and_put_back(stage, copy);
  stage.wire(kA, kC).notes_unread = true;
  stage.start(kA);
  stage.run_for(kLong);
  expect_no_answer(stage, map_of(stage), "that has asked nobody");
  return stage.violations;
}

// The start after the copy was made reaches nobody's notes: nothing may be acknowledged in it.
Violations unnoted_start_serves_nobody(SimClusters& clusters) {
  AdmissionStage stage(clusters);
  stage.kill(kA);
  const auto copy = stage.copy(kA);
  for (const std::size_t peer : {kB, kC}) stage.wire(kA, peer).notes_untold = true;
  stage.start(kA);
  stage.run_for(kLong);
  if (!stage.serves(kA)) {
    for (const std::size_t peer : {kB, kC}) stage.wire(kA, peer).notes_untold = false;
    stage.expect(stage.run_until([&] { return stage.serves(kA); }),
                 "a volume is not admitted once its peers take notes");
  }
  acknowledge_and_put_back(stage, copy);
  for (const std::size_t peer : {kB, kC}) stage.wire(kA, peer).notes_untold = false;
  stage.start(kA);
  stage.run_for(kLong);
  expect_no_answer(stage, map_of(stage), "whose last start nobody has noted");
  return stage.violations;
}

// It is two starts behind, and started again and again.
Violations refused_copy_stays_refused(SimClusters& clusters) {
  AdmissionStage stage(clusters);
  const auto copy = copy_of_an_earlier_start(stage);
  stage.kill(kA);
  stage.start_whole(kA);
  acknowledge_and_put_back(stage, copy);
  for (int i = 0; i < 5; ++i) {
    stage.start(kA);
    stage.run_for(kLong);
    expect_no_answer(stage, map_of(stage), "after it was refused a few times");
    stage.kill(kA);
  }
  return stage.violations;
}

// The network kept a message of the start before the last one, and brings it to C again.
Violations late_note_takes_nothing_back(SimClusters& clusters) {
  AdmissionStage stage(clusters);
  stage.kill(kA);
  stage.start_whole(kA);
  const std::string late = std::to_string(stage.volume(kA).opened()->start_counter());
  const std::string name = starts_note(stage.volume(kA).id());
  const auto copy = copy_of_an_earlier_start(stage);
  const auto told =
      stage.wait(stage.volume(kC).opened()->put_note(name, late, stage.volume(kC).bound()));
  const bool refused = !told && told.error().code == Errc::busy;
  stage.expect(refused == holds(Rule::starts_forward), "a late note counts as taken");
  acknowledge_and_put_back(stage, copy);
  stage.start(kA);
  stage.run_for(kLong);
  expect_no_answer(stage, map_of(stage), "because a late message took a note back");
  return stage.violations;
}

// B is replaced by D while A is away. A starts, which C and D note. The copy, which knows nothing
// of D, meets B alone.
Violations copy_asks_the_newest_peers(SimClusters& clusters) {
  AdmissionStage stage(clusters);
  stage.kill(kA);
  const auto copy = stage.copy(kA);
  const std::size_t d = stage.add_volume(joining_entry());
  stage.start(d);
  stage.run_for(kSecond);
  const VolumeId leaving = stage.volume(kB).id();
  const Map joint = next_map(stage, begin_replacement(stage.map(), leaving, joining_entry()));
  stage.install(joint, {kB, kC, d});
  stage.expect(stage.run_until([&] { return stage.serves(d); }),
               "a joining volume is not admitted");
  const Map moving = next_map(stage, end_joint(*joint));
  stage.install(moving, {kB, kC, d});
  const Map last = next_map(stage, end_replacement(*moving));
  stage.install(last, {kC, d});
  stage.kill(kB);
  stage.start_whole(kA);
  stage.install(last, {kA, kC, d});
  stage.expect(stage.write_at(*last, kA, d), "a value is not acknowledged");
  stage.kill(kA);
  stage.kill(kC);
  stage.put_back(kA, copy);
  stage.start(kB);
  stage.start(kA);
  stage.run_for(kLong);
  const bool admitted = stage.serves(kA);
  stage.expect(!admitted, "an old copy of a volume is admitted by one that was replaced");
  stage.kill(d);
  stage.start(kC);
  stage.run_for(kLong);
  if (admitted) stage.install(last, {kA, kC});
  expect_no_answer(stage, last, "that has asked whoever was there once");
  return stage.violations;
}

// A, B and C keep the key. D was away at A's last start, and took a map with X, Y and Z, of which
// nobody else knows, before its driver died. The copy of A meets D, X, Y and Z: a majority of that
// map, and none that has noted the start.
Violations map_of_one_peer_names_no_others(SimClusters& clusters) {
  AdmissionStage stage(clusters, 4);
  const auto order = stage.by_key();
  const std::size_t a = order[0], b = order[1], c = order[2], d = order[3];
  const Map first = map_of(stage);
  stage.kill(a);
  const auto copy = stage.copy(a);
  stage.kill(d);
  stage.start_whole(a);
  stage.expect(stage.write_at(*first, a, b), "a value is not acknowledged");
  stage.kill(a);
  stage.start_whole(d);
  std::vector<MapVolume> more;
  for (std::uint64_t id = 90; id < 93; ++id) {
    MapVolume& entry = more.emplace_back(joining_entry());
    entry.id = VolumeId{id};
    entry.name = entry.host = "more" + std::to_string(id);
    stage.start(stage.add_volume(entry));
  }
  stage.install(next_map(stage, add_volumes(*first, std::move(more))), {d});
  stage.kill(b);
  stage.kill(c);
  stage.put_back(a, copy);
  stage.start(a);
  stage.run_for(kLong);
  stage.expect(!stage.serves(a), "an old copy of a volume is admitted by a map that never counted");
  stage.start(c);
  stage.run_for(kLong);
  const bool agreed = stage.misses(*first, a) && stage.misses(*first, c);
  stage.expect(!agreed, "an acknowledged value is absent at a majority: an old copy answers");
  stage.expect(stage.serves(c), "a volume whose peers are there is not admitted");
  return stage.violations;
}

// Only C has noted A's last start. All are down; A, as the copy has it, boots long before the
// others, and B, which knows nothing, half a second before C.
Violations copy_hears_those_that_boot_together(SimClusters& clusters) {
  AdmissionStage stage(clusters);
  stage.kill(kA);
  const auto copy = stage.copy(kA);
  stage.kill(kB);
  stage.start(kA);
  stage.run_for(kLong);
  stage.expect(stage.serves(kA), "a volume of three is not admitted by one other");
  stage.expect(stage.write_at(stage.map(), kA, kC), "a value is not acknowledged");
  for (const std::size_t each : {kA, kC}) stage.kill(each);
  stage.put_back(kA, copy);
  stage.start(kA);
  stage.run_for(kLong);
  stage.start(kB);
  stage.run_for(500 * kMillisecond);
  stage.start(kC);
  stage.run_for(kLong);
  stage.expect(!stage.serves(kA), "an old copy is admitted by the first peer that boots");
  const bool agreed = stage.misses(stage.map(), kA) && stage.misses(stage.map(), kB);
  stage.expect(!agreed, "an acknowledged value is absent at a majority: an old copy answers");
  return stage.violations;
}

}  // namespace penstock::sim
