// Volumes that are replaced: what must have happened before the next step.
#include "server/background/replacement/replacement_context.h"
#include "server/background/replacement/volume_replacement.h"
#include "server/index/bucket_catalog.h"
#include "server/membership/map_install.h"
#include "tests/sim/blob_stage.h"
#include "tests/sim/client_uploads.h"

namespace penstock::sim {
namespace {

const std::string kReplaced = "key";

// Four volumes. The one that leaves has no part in the register of the bucket, so the groups that
// change have no rows: nothing but the rules holds the replacement up.
struct Replacement {
  explicit Replacement(SimClusters& clusters)
      : stage(clusters, 4, 1),
        driver(ReplacementParts{context().membership,
                                context().proposer,
                                context().blobs,
                                context().clock,
                                {},
                                nullptr}) {
    stage.stop_background();
    const auto kept = stage.replicas_of_register(BucketCatalog::register_of(SimClient::kBucket));
    for (std::size_t i = 0; i < 4; ++i) {
      if (std::find(kept.begin(), kept.end(), i) == kept.end()) leaving = i;
    }
    other = kept.front();
    joining = stage.add_volume(joining_entry());
    first = epoch();
  }
  ~Replacement() {
    driver.stop();
    stage.run_for(60 * kSecond);
  }
  BackgroundContext& context() { return stage.gateway(0).background_context(); }
  std::uint64_t epoch() { return context().membership.map()->epoch.value; }
  void begin() {
    const auto link = stage.links()[joining];
    const auto begun = stage.wait(driver.begin(stage.volume(leaving).id(), joining_entry(), link));
    stage.expect(begun.has_value(), "a replacement does not begin");
    driver.start(stage.time().io().get_executor());
  }

  Stage stage;
  VolumeReplacement driver;
  std::size_t leaving = 0;
  std::size_t other = 0;  // a replica of groups that change, and of some that do not
  std::size_t joining = 0;
  std::uint64_t first = 0;
};

}  // namespace

// The joint lists hold from when a majority of both has the map: not before does the change go on.
Violations change_waits_for_its_map(SimClusters& clusters) {
  Replacement play(clusters);
  play.stage.volume(play.joining).kill();
  play.stage.cut(0, play.other, true);
  play.begin();
  play.stage.run_for(700 * kSecond);  // the new volume is given up by then
  play.stage.expect(play.epoch() == play.first + 1,
                    "a change goes on though too few volumes know of it");
  return play.stage.violations;
}

// A map that half of the volumes hold may be lost with them: nobody is told of it before more do.
Violations map_of_a_minority_is_none(SimClusters& clusters) {
  Replacement play(clusters);
  Stage& stage = play.stage;
  std::vector<std::size_t> silent{play.other};
  for (std::size_t i = 0; i < 4 && silent.size() < 2; ++i) {
    if (i != play.other && i != play.leaving) silent.push_back(i);
  }
  for (const std::size_t i : silent) stage.cut(0, i, true);
  stage.volume(play.joining).kill();
  const auto begun = stage.wait(play.driver.begin(stage.volume(play.leaving).id(), joining_entry(),
                                                  stage.links()[play.joining]));
  stage.expect(!begun, "a replacement has begun that half of the volumes know of");
  stage.expect(play.epoch() == play.first, "a map counts that half of the volumes hold");
  play.driver.start(stage.time().io().get_executor());
  stage.run_for(60 * kSecond);
  stage.expect(play.epoch() == play.first, "a map counts that half of the volumes hold");
  for (const std::size_t i : silent) stage.cut(0, i, false);
  stage.expect(stage.volume(play.joining).start().has_value(), "a volume does not start");
  for (int i = 0; i < 300 && play.epoch() < play.first + 3; ++i) stage.run_for(kSecond);
  stage.expect(play.epoch() == play.first + 3, "a replacement that was begun never ends");
  return stage.violations;
}

// A Complete lists its parts, then writes the pages of its manifest; meanwhile the parts are moved,
// and a last pass finds nothing more to do. What it has listed names the old volume.
Violations complete_behind_the_last_pass(SimClusters& clusters) {
  using Pairs = Stage::Pairs;
  Stage stage(clusters, 3, 2);
  stage.stop_background();
  const std::string body(5'000, 'p');
  const auto created = stage.ask(0, "POST", kReplaced, "", {}, Pairs{{"uploads", ""}});
  const std::string id = xml_element(created.body, "UploadId");
  std::string named;
  for (std::size_t number = 1; number <= limits::kPartsInRecordMax + 1; ++number) {
    const Pairs query{{"partNumber", std::to_string(number)}, {"uploadId", id}};
    stage.expect(stage.ask(0, "PUT", kReplaced, body, {}, query).status == 200, "no part");
    named += named_part(static_cast<std::uint16_t>(number), hex_md5(body));
  }
  if (!stage.join_for(0)) return stage.violations;
  BackgroundContext& context = stage.gateway(0).background_context();
  stage.ask(0, "GET", kReplaced);  // it learns of the joint map
  auto moving = end_joint(*context.membership.map());
  stage.expect(moving.has_value(), "a replacement does not get to its moving phase");
  if (!moving) return stage.violations;
  stage.adopt(*moving);
  for (int i = 0; i < 2; ++i) stage.ask(i, "GET", kReplaced);
  for (const auto& wire : stage.gateway(1).wires()) wire->slow_writes = 1500 * kMillisecond;
  const auto done =
      stage.begin(1, "POST", kReplaced, complete_body(named), {}, Pairs{{"uploadId", id}});
  stage.run_for(100 * kMillisecond);
  ReplacementContext driver(
      {context.membership, context.proposer, context.blobs, context.clock, {}, nullptr});
  bool last = false;
  for (int pass = 0; pass < 5 && !last; ++pass) {
    const auto moved =
        stage.wait(move_fragments(driver, context.membership.map(), context.membership.volumes()));
    last = moved && *moved;
  }
  stage.expect(last && !done->has_value(), "the schedule is late for the last pass");
  stage.run_until([&] { return done->has_value(); });
  stage.expect(done->has_value() && (*done)->status == 200, "an upload is not completed");
  const auto read =
      stage.wait(context.objects.get(stage.bucket(), kReplaced, false, stage.until()));
  const auto parts = read ? stage.wait(context.objects.parts(read->record, stage.until()))
                          : Result<std::vector<PartInfo>>(read.error());
  stage.expect(parts && parts->size() == limits::kPartsInRecordMax + 1, "parts are missing");
  std::size_t behind = 0;
  for (const PartInfo& part : parts ? *parts : std::vector<PartInfo>()) {
    for (const Location& location : part.blob->locations) {
      behind += location.volume == stage.volume(0).id() ? 1 : 0;
    }
  }
  stage.expect(behind == 0, "a manifest names the old volume behind the last pass " +
                                std::to_string(behind) + " times");
  return stage.violations;
}

// The rows of a majority of the old list are brought, or the change does not go on: what a minority
// does not list may be all that was acknowledged.
Violations rows_of_a_majority_are_brought(SimClusters& clusters) {
  Replacement play(clusters);
  const auto& wires = play.stage.gateway(0).wires();
  wires[play.leaving]->slow_requests = wires[play.other]->slow_requests = 5 * kMillisecond;
  play.begin();
  const auto counting = [&] { return play.driver.status().what == "counting rows"; };
  for (int step = 0; step < 10'000 && !counting(); ++step) play.stage.run_for(kMillisecond);
  play.stage.expect(counting(), "no rows are brought");
  play.stage.cut(0, play.leaving, true);
  play.stage.cut(0, play.other, true);
  play.stage.run_for(300 * kSecond);
  play.stage.expect(play.epoch() == play.first + 1, "a change goes on with the rows of a minority");
  return play.stage.violations;
}

// R12: parts are brought like objects. One that lies at the leaving volume and one more of its
// group would else be known to a minority of the new list.
Violations rows_of_parts_are_brought(SimClusters& clusters) {
  using Pairs = Stage::Pairs;
  Replacement play(clusters);
  Stage& stage = play.stage;
  std::string key;
  std::vector<std::size_t> stay;
  for (int i = 0; key.empty(); ++i) {
    stay = stage.replicas("key" + std::to_string(i));
    if (std::erase(stay, play.leaving) > 0) key = "key" + std::to_string(i);
  }
  const auto created = stage.ask(0, "POST", key, "", {}, Pairs{{"uploads", ""}});
  const std::string id = xml_element(created.body, "UploadId");
  const std::string body(5'000, 'p');
  stage.cut(0, stay[1], true);
  const auto part =
      stage.ask(0, "PUT", key, body, {}, Pairs{{"partNumber", "1"}, {"uploadId", id}});
  stage.expect(part.status == 200, "a part is not stored: " + part.body);
  stage.cut(0, stay[1], false);
  play.begin();
  for (int i = 0; i < 300 && play.epoch() < play.first + 3; ++i) stage.run_for(kSecond);
  stage.expect(play.epoch() == play.first + 3, "a replacement does not end");
  stage.volume(stay[0]).kill();
  const auto done = stage.ask(0, "POST", key, one_part_manifest(body), {}, Pairs{{"uploadId", id}});
  stage.expect(done.status == 200, "an acknowledged part is lost: " + done.body);
  return stage.violations;
}

// A record that named the old volume may have been written behind the back of a pass that moves:
// only one that found nothing to move is the last.
Violations last_pass_moves_nothing(SimClusters& clusters) {
  Replacement play(clusters);
  for (int i = 0; i < 8; ++i) play.stage.ask(0, "PUT", "key" + std::to_string(i), kBlobBody);
  play.stage.run_for(kSecond);
  play.begin();
  bool moved = false, looked_again = false;
  for (int step = 0; step < 400'000 && play.epoch() < play.first + 3; ++step) {
    play.stage.run_for(100);
    const std::string what = play.driver.status().what;
    moved = moved || what == "moving fragments";
    looked_again = looked_again || (moved && what == "looking for fragments");
  }
  play.stage.expect(moved && play.epoch() == play.first + 3, "nothing is moved");
  play.stage.expect(looked_again, "a replacement ends without a last look");
  return play.stage.violations;
}

// A row that one replica alone accepted before the change was never chosen, and names the volume
// that leaves. Groups of other volumes are not brought anew: the last pass has to see to it that no
// later round settles that row.
Violations rival_row_is_settled_before_the_end(SimClusters& clusters) {
  enum class Rival { beside, away, alone };
  for (const Rival rival : {Rival::beside, Rival::away, Rival::alone}) {
    Replacement play(clusters);
    Stage& stage = play.stage;
    const std::string key = kReplaced;
    const auto replicas = stage.replicas(key);
    for (std::size_t i = 0; i < 4; ++i) {
      if (std::find(replicas.begin(), replicas.end(), i) == replicas.end()) play.leaving = i;
    }
    if (rival != Rival::alone) {
      stage.expect(stage.ask(0, "PUT", key).status == 200, "a PUT fails");  // without fragments
    }
    stage.run_for(kSecond);
    const auto stored = store_blob(stage, key);
    if (!stored) return stage.violations;
    const auto value = to_value(stored->record(), 0);
    stage.expect(stage.inject(replicas[0], stage.object(key), value, 2 * kSecond), "no rival row");
    if (rival == Rival::away) stage.cut(0, replicas[0], true);
    if (rival == Rival::alone) {  // it promises when the others have
      stage.gateway(0).wires()[replicas[0]]->slow_requests = 5 * kMillisecond;
    }
    play.begin();
    for (int i = 0; i < 300 && play.epoch() < play.first + 3; ++i) stage.run_for(kSecond);
    stage.expect(play.epoch() == play.first + 3, "a replacement does not end");
    stage.cut(0, replicas[0], false);
    stage.run_for(60 * kSecond);
    stage.cut(0, replicas[1], true);
    const auto read =
        stage.wait(play.context().objects.get(stage.bucket(), key, false, stage.until()));
    stage.expect(read.has_value() == (rival != Rival::alone),
                 "an object behind a replacement is not what it was before");
    if (!read && stage.violations.empty()) continue;
    if (!read) return stage.violations;
    for (const PartInfo& part : read->record.parts) {
      for (const Location& location : part.blob->locations) {
        stage.expect(location.volume != stage.volume(play.leaving).id(),
                     "a row that was never chosen names the volume that has left");
      }
    }
    if (!stage.violations.empty()) return stage.violations;
  }
  return {};
}

// No new record names a volume that is being replaced: the pass that looks for such records has an
// end.
Violations leaving_volume_is_not_named(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const auto stored = store_blob(stage, kReplaced);
  if (!stored) return stage.violations;
  if (!stage.join_for(0)) return stage.violations;
  stage.ask(0, "GET", kReplaced);  // the gateway learns of it
  WriterLease lease(*stored->writer, stored->blob);
  const auto lost = stage.wait(lease.ensure(stage.until()));
  const bool left_out = lost && std::any_of(lost->begin(), lost->end(), [&](const auto& id) {
                          return stored->blob.locations[id.slot].volume == stage.volume(0).id();
                        });
  stage.expect(left_out, "a record may name a volume that is being replaced");
  return stage.violations;
}

}  // namespace penstock::sim
