#include "server/background/replacement/volume_replacement.h"

#include "server/background/replacement/register_repair.h"
#include "server/background/replacement/register_walk.h"
#include "server/background/replacement/replacement_context.h"
#include "tests/unit/background/replacement/replacement_world.h"

namespace penstock {
namespace {

// `head`: null - the source is away.
Task<> take_head(Epoch* head, std::shared_ptr<const ClusterMap> map) {
  if (head == nullptr) co_return fail(Errc::unavailable, "the source is away");
  *head = map->epoch;
  co_return Result<>{};
}

}  // namespace

TEST_CASE("a lost volume is replaced: rows and fragments are made again, two others may go then") {
  ReplacementWorld world;
  fill(world);
  world.volume(first_volume()).go_missing();
  REQUIRE(world.begin(first_volume()));
  REQUIRE(world.run_until_replaced());
  CHECK(!world.is_named(first_volume()));
  CHECK(world.is_named(kNew));
  CHECK(world.volume(kNew).acceptor.rows.size() > 0);
  CHECK(world.gateway().membership.map()->find(first_volume()) == nullptr);
  world.check_all();
  for (const std::uint64_t other : {2, 3}) world.volume(VolumeId{other}).go_missing();
  world.check_all();
}

TEST_CASE("a volume that still works is replaced by copies of its fragments") {
  ReplacementWorld world;
  fill(world);
  REQUIRE(world.begin(first_volume()));
  const ReplacementStatus begun = world.replacement().status();
  CHECK(begun.active);
  CHECK(begun.leaving == first_volume());
  CHECK(begun.joining == kNew);
  REQUIRE(world.run_until_replaced());
  CHECK(!world.is_named(first_volume()));
  const ReplacementStatus ended = world.replacement().status();
  CHECK(ended.fragments_moved > 0);
  CHECK(ended.bytes_moved > 0);
  CHECK(ended.rows_brought > 0);
  CHECK(ended.trouble.empty());
  CHECK(world.most_done["moving fragments"] > 0);
  world.check_all();
}

TEST_CASE("what is written while a volume is replaced does not name the old one") {
  ReplacementWorld world;
  fill(world);
  REQUIRE(world.begin(first_volume()));
  world.put("during", 200'000);
  auto read = world.cluster.run(
      world.gateway().objects.get(*world.bucket, "during", false, world.cluster.soon()));
  REQUIRE(read);
  for (const Location& location : read->record.parts.front().blob->locations) {
    CHECK(location.volume != first_volume());
  }
  REQUIRE(world.run_until_replaced());
  world.put("after", 200'000);
  world.check_all();
}

TEST_CASE("parts that stand in a manifest are made again, and its pages name their new places") {
  constexpr std::size_t kParts = limits::kPartsInRecordMax + 8;
  for (const bool lost : {true, false}) {
    CAPTURE(lost);
    ReplacementWorld world;
    world.put_in_parts("parts", kParts, 5'000);
    world.put_in_parts("striped", kParts, 140'000);
    REQUIRE(world.blobs_of("parts").size() == kParts + 1);
    REQUIRE(world.is_named(first_volume()));
    if (lost) world.volume(first_volume()).go_missing();
    REQUIRE(world.begin(first_volume()));
    REQUIRE(world.run_until_replaced());
    CHECK(!world.is_named(first_volume()));
    for (const std::string key : {"parts", "striped"}) {
      const auto blobs = world.blobs_of(key);
      CHECK(blobs.size() == kParts + 1);
      for (const BlobRef& blob : blobs) CHECK(world.cluster.held(blob) == blob.locations.size());
    }
    for (const std::uint64_t other : {2, 3}) world.volume(VolumeId{other}).go_missing();
    world.check_all();
  }
}

TEST_CASE("a replacement that another process ends while its own is on the way ends") {
  ReplacementWorld world;
  fill(world);
  REQUIRE(world.begin(first_volume()));
  Membership& membership = world.gateway().membership;
  bool ended = false;
  for (const auto& volume : world.cluster.volumes) {
    volume->acceptor.before_adopt = [&] {
      const auto map = membership.map();
      const auto change = change_of(*map);
      if (ended || !change || change->phase != MapChange::Phase::moving) return;
      // As if a request had just learned of it: the old volume leaves the membership.
      auto last = std::make_shared<const ClusterMap>(end_replacement(*map).value());
      ended = membership.adopt(std::move(last)).value();
    };
  }
  run_until(world.cluster.io, world.cluster.clock,
            [&] { return ended && !world.replacement().status().active; });
  CHECK(ended);
  CHECK(!world.replacement().status().active);
  CHECK(membership.volume(first_volume()) == nullptr);
  world.check_all();
}

TEST_CASE("fragments made again lie on other volumes than the rest, at most m on one host") {
  ReplacementWorld world(three_hosts());
  for (int i = 0; i < 12; ++i) world.put("key" + std::to_string(i), 300'000);
  world.volume(first_volume()).go_missing();
  REQUIRE(world.begin(first_volume()));
  REQUIRE(world.run_until_replaced());
  CHECK(!world.is_named(first_volume()));
  const auto map = world.gateway().membership.map();
  const std::uint32_t m = map->policy.m;
  for (const auto& [key, size] : world.sizes) {
    CAPTURE(key);
    auto read = world.cluster.run(
        world.gateway().objects.get(*world.bucket, key, false, world.cluster.soon()));
    REQUIRE(read);
    std::set<VolumeId> holders;
    std::map<std::string, std::uint32_t> per_host;
    for (const Location& location : read->record.parts.front().blob->locations) {
      CHECK(holders.insert(location.volume).second);
      CHECK(++per_host[map->find(location.volume)->host] <= m);
    }
  }
}

TEST_CASE("a map that one volume holds is none: the replacement begins when more have it") {
  ReplacementWorld world;
  fill(world);
  world.replacement();
  const BootTime soon = world.cluster.clock.boot() + std::chrono::seconds(1);
  run_until(world.cluster.io, world.cluster.clock,
            [&] { return world.cluster.clock.boot() >= soon; });  // all have the map of now
  // Behind the first volume that takes the next one the others fail, but for one.
  const auto set_others = [&world](VolumeStatus::State state) {
    for (const std::uint64_t id : {2, 3, 4, 5}) world.volume(VolumeId{id}).acceptor.state = state;
  };
  world.volume(first_volume()).acceptor.before_adopt = [&] {
    set_others(VolumeStatus::State::closed);
  };
  const auto begun = world.begin(first_volume());
  REQUIRE(!begun);
  CHECK(begun.error().code == Errc::unavailable);
  CHECK(world.gateway().membership.map()->epoch == world.cluster.map->epoch);
  CHECK(world.replacement().status().active);
  CHECK(!world.replacement().status().trouble.empty());
  CHECK(world.begin(first_volume()).error().code == Errc::busy);
  world.volume(first_volume()).acceptor.before_adopt = nullptr;
  set_others(VolumeStatus::State::open);
  REQUIRE(world.run_until_replaced());
  CHECK(!world.is_named(first_volume()));
  world.check_all();
}

TEST_CASE("no volume gets a map that the source has not taken") {
  ReplacementWorld world;
  fill(world);
  bool away = true;
  Epoch head = world.cluster.map->epoch;
  world.to_source = [&](std::shared_ptr<const ClusterMap> map) -> Task<> {
    return take_head(away ? nullptr : &head, std::move(map));
  };
  const auto refused = world.begin(first_volume());
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::unavailable);
  CHECK(!world.replacement().status().active);
  for (const auto& volume : world.cluster.volumes) CHECK(volume->acceptor.epoch <= head);
  away = false;
  REQUIRE(world.begin(first_volume()));
  REQUIRE(world.run_until_replaced());
  CHECK(head == world.gateway().membership.map()->epoch);
  world.check_all();
}

TEST_CASE("what a volume throws ends one try of a replacement, not the replacement") {
  ReplacementWorld world;
  fill(world);
  world.replacement();
  const auto wait = [&world](Duration time) {
    const BootTime until = world.cluster.clock.boot() + time;
    run_until(world.cluster.io, world.cluster.clock,
              [&] { return world.cluster.clock.boot() >= until; });
  };
  wait(std::chrono::seconds(1));  // all have the map of now
  const auto set_others = [&world](VolumeStatus::State state) {
    for (const std::uint64_t id : {2, 3, 4, 5}) world.volume(VolumeId{id}).acceptor.state = state;
  };
  FakeAcceptor& first = world.volume(first_volume()).acceptor;
  first.before_adopt = [&] { set_others(VolumeStatus::State::closed); };
  REQUIRE(!world.begin(first_volume()));
  int thrown = 0;
  first.before_adopt = [&] {
    ++thrown;
    throw std::runtime_error("planted");
  };
  wait(std::chrono::minutes(1));
  CHECK(thrown > 1);
  first.before_adopt = nullptr;
  set_others(VolumeStatus::State::open);
  CHECK(world.run_until_replaced());
}

TEST_CASE("only a pass that touches open uploads is the last; one behind a failure touches none") {
  ReplacementWorld world;
  fill(world);
  ReplacementContext context({world.gateway().membership,
                              world.gateway().proposer,
                              world.gateway().blobs,
                              world.cluster.clock,
                              {},
                              nullptr});
  const auto look = [&](std::size_t volumes) {
    Volumes some(world.cluster.volumes.begin(),
                 world.cluster.volumes.begin() + static_cast<std::ptrdiff_t>(volumes));
    return world.cluster.run(move_fragments(context, world.cluster.map, std::move(some)));
  };
  CHECK(!look(2));
  CHECK(!context.touches);
  CHECK(look(6).value() == false);
  CHECK(context.touches);
  CHECK(look(6).value());
}

TEST_CASE("an open upload gets a new ballot: its Complete may know places of before") {
  ReplacementWorld world;
  const auto upload = world.open_upload("open", 100'000);
  const RegisterRef ref = upload.name.upload();
  const auto ballot = [&] {
    return world.cluster
        .run(world.gateway().proposer.read(ref, ReadWant::ballot, world.cluster.soon()))
        ->ballot;
  };
  RegisterRepair repair(world.gateway().proposer, world.gateway().blobs, world.cluster.clock);
  const Ballot before = ballot();
  REQUIRE(world.cluster.run(repair.examine(ref, false, world.cluster.soon())));
  CHECK(ballot() == before);
  REQUIRE(world.cluster.run(repair.examine(ref, true, world.cluster.soon())));
  CHECK(ballot() > before);
}

TEST_CASE("parts of an upload that has ended hold no replacement up") {
  ReplacementWorld world;
  fill(world);
  Objects& objects = world.gateway().objects;
  Multipart& multipart = world.gateway().multipart;
  auto& cluster = world.cluster;
  const auto& bucket = *world.bucket;
  auto object = cluster.run(objects.get(bucket, "striped", false, cluster.soon()));
  auto id = cluster.run(multipart.create(bucket, "big", UploadRecord{}, cluster.soon()));
  REQUIRE(id);
  PartInfo part = object->record.parts.front();  // a blob with a fragment on each volume
  part.number = 1;
  REQUIRE(cluster.run(multipart.put_part(bucket, "big", *id, part, cluster.soon())));
  REQUIRE(cluster.run(multipart.abort(bucket, "big", *id, cluster.soon())));
  cluster.settle_down();
  REQUIRE(world.begin(first_volume()));
  CHECK(world.run_until_replaced());
  world.check_all();
}

TEST_CASE("a pass over the volumes of a minority finds no end, only that they are too few") {
  ReplacementWorld world;
  fill(world);
  ReplacementContext context({world.gateway().membership,
                              world.gateway().proposer,
                              world.gateway().blobs,
                              world.cluster.clock,
                              {},
                              nullptr});
  Volumes volumes(world.cluster.volumes.begin(), world.cluster.volumes.begin() + 6);
  const auto look = [&] {
    return world.cluster.run(move_fragments(context, world.cluster.map, volumes));
  };
  CHECK(look().value());
  volumes.resize(2);  // of the five of a group
  const auto few = look();
  REQUIRE(!few);
  CHECK(few.error().code == Errc::unavailable);
}

TEST_CASE("another process goes on with a replacement at whatever step the first one died") {
  for (const int steps : {1, 3, 10, 30, 100, 300, 1000}) {
    CAPTURE(steps);
    ReplacementWorld world;
    fill(world);
    REQUIRE(world.begin(first_volume()));
    for (int i = 0; i < steps; ++i) {
      world.cluster.io.restart();
      world.cluster.io.poll_one();
      if (i % 3 == 0) world.cluster.clock.advance(std::chrono::milliseconds(1));
    }
    world.end();
    REQUIRE(world.run_until_replaced());
    CHECK(!world.is_named(first_volume()));
    world.check_all();
  }
}

TEST_CASE("a gateway that does not know of the change learns the newer map from the volumes") {
  ReplacementWorld world;
  fill(world);
  FakeGateway& other = world.cluster.another_gateway();
  REQUIRE(world.begin(first_volume()));
  REQUIRE(world.run_until_replaced());
  CHECK(other.membership.map()->epoch.value == 1);
  auto read =
      world.cluster.run(other.objects.get(*world.bucket, "inline", true, world.cluster.soon()));
  REQUIRE(read);
  CHECK(other.membership.map()->epoch == world.gateway().membership.map()->epoch);
  CHECK(other.membership.volume(kNew) != nullptr);
}

TEST_CASE("the new volume takes over the highest horizon and fence before it answers") {
  ReplacementWorld world;
  fill(world);
  world.volume(VolumeId{3}).acceptor.horizon = 12345;
  world.volume(VolumeId{4}).acceptor.fences[BucketId{9}] = BucketNumber{2};
  world.volume(VolumeId{5}).acceptor.fences[BucketId{9}] = BucketNumber{6};
  REQUIRE(world.begin(first_volume()));
  CHECK(world.volume(kNew).acceptor.horizon == 12345);
  CHECK(world.volume(kNew).acceptor.fences[BucketId{9}] == BucketNumber{6});
}

TEST_CASE("without a majority of some group no replacement begins, and nothing has changed") {
  ReplacementWorld world;
  fill(world);
  for (const std::uint64_t lost : {1, 2, 3, 4}) {
    world.volume(VolumeId{lost}).acceptor.state = VolumeStatus::State::missing;
  }
  const auto begun = world.begin(first_volume());
  REQUIRE(!begun);
  CHECK(begun.error().code == Errc::unavailable);
  CHECK(!change_of(*world.gateway().membership.map()));
  for (const auto& each : world.cluster.volumes) CHECK(each->acceptor.epoch.value <= 1);
}

TEST_CASE("while some row cannot be brought the new lists do not hold") {
  ReplacementWorld world;
  fill(world);
  const auto& rows = world.volume(first_volume()).acceptor.rows;
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& row) {
    return row.first.bucket == world.bucket->record.id;
  });
  REQUIRE(found != rows.end());
  const RegisterKey key = found->first;
  std::vector<FakeAcceptor::Row*> lost;  // with these no majority of its group can be read
  for (const auto& each : world.cluster.volumes) {
    const auto row = each->acceptor.rows.find(key);
    if (each->id() == first_volume() || row == each->acceptor.rows.end()) continue;
    if (lost.size() < 3) lost.push_back(&row->second);
  }
  for (FakeAcceptor::Row* row : lost) row->unreadable = true;
  REQUIRE(world.begin(first_volume()));
  run_until(world.cluster.io, world.cluster.clock,
            [&] { return !world.replacement().status().trouble.empty() || !world.is_joint(); });
  CHECK(world.is_joint());
  for (FakeAcceptor::Row* row : lost) row->unreadable = false;
  REQUIRE(world.run_until_replaced());
  world.check_all();
}

TEST_CASE("while rounds of a row that is listed fail the new lists do not hold") {
  ReplacementWorld world;
  fill(world);
  const auto& rows = world.volume(first_volume()).acceptor.rows;
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& row) {
    return row.first.bucket == world.bucket->record.id;
  });
  REQUIRE(found != rows.end());
  const RegisterKey key = found->first;
  for (const auto& each : world.cluster.volumes) {
    each->acceptor.fate = [key](VolumeId, RegisterCall call, const RegisterKey& at) {
      Fate fate;
      fate.lose_request = call == RegisterCall::accept && at == key;
      return fate;
    };
  }
  REQUIRE(world.begin(first_volume()));
  run_until(world.cluster.io, world.cluster.clock,
            [&] { return !world.replacement().status().trouble.empty() || !world.is_joint(); });
  CHECK(world.is_joint());
  for (const auto& each : world.cluster.volumes) each->acceptor.fate = nullptr;
  REQUIRE(world.run_until_replaced());
  world.check_all();
}

TEST_CASE("a volume stays while a Complete that stopped half-way names it") {
  ReplacementWorld world;
  fill(world);
  auto upload = world.open_upload("upload", 300'000);
  REQUIRE(world.begin(first_volume()));
  run_until(world.cluster.io, world.cluster.clock,
            [&] { return !world.part_is_on(upload, first_volume()); });
  world.begin_complete(upload);
  int lists = 0;
  world.cluster.volumes[1]->acceptor.before_list = [&] { ++lists; };
  const BootTime later = world.cluster.clock.boot() + std::chrono::minutes(1);
  run_until(world.cluster.io, world.cluster.clock,
            [&] { return world.cluster.clock.boot() >= later; });
  CHECK(world.replacement().status().replaced == 0);
  CHECK(lists > 0);
  CHECK(lists < 200);  // three a pass: it looks again without haste
  CHECK(world.replacement().status().trouble ==
        "key \"" + upload.name.key + "\": an upload of it is being completed");
  world.end_complete(upload);
  REQUIRE(world.run_until_replaced());
  CHECK(world.replacement().status().trouble.empty());
  CHECK(!world.is_named(first_volume()));
  world.check_all();
}

TEST_CASE("a walk over several volumes meets each register once, in order") {
  ReplacementWorld world;
  for (int i = 0; i < 20; ++i) world.put("key" + std::to_string(i), 10);
  std::vector<std::shared_ptr<VolumeClient>> volumes(world.cluster.volumes.begin(),
                                                     world.cluster.volumes.end());
  volumes.pop_back();
  RegisterWalk walk(RowKind::object, volumes, world.cluster.clock, 3);
  std::vector<std::string> keys;
  while (true) {
    const auto found = world.cluster.run(walk.next(7, world.cluster.soon()));
    REQUIRE(found);
    if (found->empty()) break;
    for (const auto& row : *found) {
      if (row.key.bucket == world.bucket->record.id) keys.push_back(row.key.key);
    }
  }
  CHECK(keys.size() == 20);
  CHECK(std::is_sorted(keys.begin(), keys.end()));
  CHECK(walk.listed().size() == 6);
}

}  // namespace penstock
