#include "server/background/volume_replacement.h"

#include <doctest/doctest.h>

#include <cstring>
#include <set>

#include "penstock/log.h"
#include "server/background/blob_rebuild.h"
#include "server/background/register_walk.h"
#include "server/background/replacement_context.h"
#include "server/cluster/multipart_apply.h"
#include "server/cluster/upload_moves.h"
#include "tests/fake/fake_cluster.h"

namespace penstock {
namespace {

const VolumeId kNew{77};

MapVolume newcomer() {
  MapVolume volume;
  volume.id = kNew;
  volume.name = "new";
  return volume;
}

// Six volumes with objects of every form, and a seventh that takes the place of one.
class ReplacementWorld {
 public:
  // Of six volumes on one host, or of the volumes of `map`.
  explicit ReplacementWorld(std::shared_ptr<const ClusterMap> map = nullptr) {
    if (map) {
      cluster.map = std::move(map);
      cluster.nodes.clear();
      for (const MapVolume& volume : cluster.map->volumes) cluster.add_node(volume.id);
      cluster.gateway = &cluster.another_gateway();
    }
    bucket = cluster.make_bucket("bucket");
    cluster.add_node(kNew);
  }
  ~ReplacementWorld() { end(); }

  FakeGateway& gateway() { return *cluster.gateway; }
  FakeNode& node(VolumeId id) {
    for (auto& each : cluster.nodes) {
      if (each->id() == id) return *each;
    }
    std::abort();
  }
  static std::string bytes_of(const std::string& key, std::size_t size) {
    std::string text;
    while (text.size() < size) text += key + std::to_string(text.size()) + " ";
    text.resize(size);
    return text;
  }
  void put(const std::string& key, std::size_t size) {
    sizes[key] = size;
    REQUIRE(cluster.run(store(key, bytes_of(key, size))));
    if (!running) cluster.settle_down();  // a replacement looks at its map for ever
  }
  struct Upload {
    UploadName name;
    PartInfo part;  // its only one, as it was put
    OpId attempt;
  };
  Upload open_upload(const std::string& key, std::size_t size) {
    Upload upload;
    upload.name = {bucket, key, ""};
    upload.name.upload_id = cluster.run(gateway().objects.create_upload(
        *bucket, key, UploadRecord{}, cluster.soon())).value();
    const std::string& id = upload.name.upload_id;
    std::unique_ptr<BlobWriter> writer;
    upload.part = cluster.run(write(Index::owner(*bucket, key, id), bytes_of(key, size),
                                    &writer)).value();
    REQUIRE(cluster.run(gateway().objects.put_part(*bucket, key, id, upload.part,
                                                   cluster.soon())));
    cluster.settle_down();
    return upload;
  }
  bool part_is_on(const Upload& upload, VolumeId id) {
    const RegisterKey key = Index::part(*bucket, upload.name.key, upload.name.upload_id, 1).key;
    for (const auto& each : cluster.nodes) {
      const auto row = each->acceptor.rows.find(key);
      if (each->id() == id || row == each->acceptor.rows.end()) continue;
      const auto part = part_info(decode_value(key, *row->second.accepted.value).value());
      for (const Location& location : part->blob->locations) {
        if (location.volume == id) return true;
      }
    }
    return false;
  }
  // The first step of a Complete that looked at the part when it was put.
  void begin_complete(Upload& upload) {
    upload.attempt = gateway().proposer.new_op_id();
    UploadRecord completing;
    completing.attempt = upload.attempt;
    completing.target.emplace();
    completing.target->size_bytes = upload.part.size_bytes;
    completing.target->etag = std::string(32, '0') + "-1";
    completing.target->parts.push_back(upload.part);
    auto begun = cluster.run(begin_completing(gateway().proposer, upload.name.upload(), completing,
                                              nullptr, cluster.soon()));
    REQUIRE(begun.value());
  }
  void end_complete(const Upload& upload) {
    const ApplyContext context{gateway().index, gateway().proposer, cluster.clock};
    const auto end = cluster.run(
        apply_attempt(context, upload.name, upload.attempt, nullptr, cluster.soon()));
    REQUIRE(end.value().how == AttemptEnd::How::applied);
    sizes[upload.name.key] = upload.part.size_bytes;
  }
  std::string get(const std::string& key) {
    auto read = cluster.run(gateway().objects.get(*bucket, key, true, cluster.soon()));
    if (!read) return "error: " + read.error().context;
    if (read->inline_bytes) return *read->inline_bytes;
    std::string text;
    for (const PartInfo& part : read->record.parts) {
      auto bytes = cluster.run(read_blob(gateway().blobs, *part.blob, cluster.soon()));
      text += bytes ? *bytes : "error: " + bytes.error().context;
    }
    return text;
  }
  void check_all() {
    for (const auto& [key, size] : sizes) CHECK_MESSAGE(get(key) == bytes_of(key, size), key);
  }
  // Does any record name the volume?
  bool is_named(VolumeId id) {
    for (const auto& [key, size] : sizes) {
      auto read = cluster.run(gateway().objects.get(*bucket, key, false, cluster.soon()));
      REQUIRE(read);
      for (const PartInfo& part : read->record.parts) {
        for (const Location& location : part.blob->locations) {
          if (location.volume == id) return true;
        }
      }
    }
    return false;
  }

  VolumeReplacement& replacement() {
    if (!running) {
      ReplacementParts parts{gateway().membership, gateway().proposer, gateway().blobs,
                             cluster.clock,        {},                 nullptr};
      running = std::make_unique<VolumeReplacement>(std::move(parts));
      running->start(cluster.io.get_executor());
    }
    return *running;
  }
  Result<> begin(VolumeId old) {
    auto client = std::static_pointer_cast<VolumeClient>(cluster.nodes.back());
    return cluster.run(replacement().begin(old, newcomer(), std::move(client)));
  }
  bool is_joint() {
    const auto change = change_of(*gateway().membership.map());
    return change && change->phase == MapChange::Phase::joint;
  }
  bool run_until_replaced() {
    auto done = [this] { return replacement().status().replaced > 0; };
    for (int i = 0; i < 100'000 && !done(); ++i) {
      cluster.io.restart();
      cluster.io.poll();
      const ReplacementStatus now = replacement().status();
      most_done[now.what] = std::max(most_done[now.what], now.done);
      if (!done()) cluster.clock.advance(std::chrono::milliseconds(10));
    }
    return done();
  }
  // The process dies: what it had begun is left as it is.
  void end() {
    if (!running) return;
    running->stop();
    cluster.settle_down();
    running.reset();
  }

  FakeCluster cluster;
  std::shared_ptr<const Bucket> bucket;
  std::map<std::string, std::size_t> sizes;
  std::unique_ptr<VolumeReplacement> running;
  std::map<std::string, std::uint64_t> most_done;  // by what the status said it did

 private:
  Task<PartInfo> write(FragmentOwner owner, std::string text, std::unique_ptr<BlobWriter>* keep) {
    CO_TRY(writer, co_await BlobWriter::open(gateway().blobs, std::move(owner), text.size(),
                                             cluster.soon()));
    *keep = std::move(writer);
    std::size_t done = 0;
    while (done < text.size()) {
      CO_TRY(space, co_await (*keep)->space());
      const std::size_t count = std::min(space.size(), text.size() - done);
      std::memcpy(space.data(), text.data() + done, count);
      CO_CHECK(co_await (*keep)->filled(count));
      done += count;
    }
    PartInfo part;
    part.number = 1;
    part.size_bytes = text.size();
    CO_TRY(blob, co_await (*keep)->commit(cluster.soon()));
    part.blob = std::move(blob);
    co_return part;
  }
  Task<> store(std::string key, std::string text) {
    ObjectRecord record;
    record.size_bytes = text.size();
    record.etag = std::string(32, '0');
    SharedBytes inline_bytes;
    std::unique_ptr<BlobWriter> writer;
    std::unique_ptr<WriterLease> lease;
    if (text.size() <= 4096) {
      inline_bytes = std::make_shared<const std::string>(text);
    } else {
      CO_TRY(part, co_await write(Index::owner(*bucket, key), text, &writer));
      record.parts.push_back(part);
      lease = std::make_unique<WriterLease>(*writer, *part.blob);
    }
    Condition condition;
    CO_CHECK(co_await gateway().objects.put(*bucket, key, std::move(record), inline_bytes,
                                            condition, cluster.soon(), lease.get()));
    co_return Result<>{};
  }
};

void fill(ReplacementWorld& world) {
  world.put("inline", 100);
  world.put("replicated", 50'000);
  world.put("striped", 300'000);
  world.put("long", 9'000'000);
}

VolumeId first_volume() { return VolumeId{1}; }

// 4+2 over three hosts with three volumes each.
std::shared_ptr<const ClusterMap> three_hosts() {
  std::vector<MapVolume> volumes;
  for (std::uint64_t i = 0; i < 9; ++i) {
    MapVolume volume;
    volume.id = VolumeId{i + 1};
    volume.name = "v" + std::to_string(i);
    volume.host = "h" + std::to_string(i % 3);
    volumes.push_back(std::move(volume));
  }
  LayoutPolicy policy = default_policy(6).value();
  return std::make_shared<const ClusterMap>(
      make_map(ClusterId{1, 1}, std::move(volumes), 4, &policy).value());
}

}  // namespace

TEST_CASE("a lost volume is replaced: rows and fragments are made again, two others may go then") {
  ReplacementWorld world;
  fill(world);
  world.node(first_volume()).acceptor.state = VolumeStatus::State::missing;
  world.node(first_volume()).fragments.faults.state = VolumeStatus::State::missing;
  REQUIRE(world.begin(first_volume()));
  REQUIRE(world.run_until_replaced());
  CHECK(!world.is_named(first_volume()));
  CHECK(world.is_named(kNew));
  CHECK(world.node(kNew).acceptor.rows.size() > 0);
  CHECK(world.gateway().membership.map()->find(first_volume()) == nullptr);
  world.check_all();
  for (const std::uint64_t other : {2, 3}) {
    world.node(VolumeId{other}).acceptor.state = VolumeStatus::State::missing;
    world.node(VolumeId{other}).fragments.faults.state = VolumeStatus::State::missing;
  }
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

TEST_CASE("fragments made again lie on other volumes than the rest, at most m on one host") {
  ReplacementWorld world(three_hosts());
  for (int i = 0; i < 12; ++i) world.put("key" + std::to_string(i), 300'000);
  world.node(first_volume()).acceptor.state = VolumeStatus::State::missing;
  world.node(first_volume()).fragments.faults.state = VolumeStatus::State::missing;
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

TEST_CASE("parts of an upload that has ended hold no replacement up") {
  ReplacementWorld world;
  fill(world);
  Objects& objects = world.gateway().objects;
  auto& cluster = world.cluster;
  const auto& bucket = *world.bucket;
  auto object = cluster.run(objects.get(bucket, "striped", false, cluster.soon()));
  auto id = cluster.run(objects.create_upload(bucket, "big", UploadRecord{}, cluster.soon()));
  REQUIRE(id);
  PartInfo part = object->record.parts.front();  // a blob with a fragment on each volume
  part.number = 1;
  REQUIRE(cluster.run(objects.put_part(bucket, "big", *id, part, cluster.soon())));
  REQUIRE(cluster.run(objects.abort_upload(bucket, "big", *id, cluster.soon())));
  cluster.settle_down();
  REQUIRE(world.begin(first_volume()));
  CHECK(world.run_until_replaced());
  world.check_all();
}

TEST_CASE("a pass over the volumes of a minority finds no end, only that they are too few") {
  ReplacementWorld world;
  fill(world);
  ReplacementContext context({world.gateway().membership, world.gateway().proposer,
                              world.gateway().blobs, world.cluster.clock, {}, nullptr});
  Volumes volumes(world.cluster.nodes.begin(), world.cluster.nodes.begin() + 6);
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
  world.node(VolumeId{3}).acceptor.horizon = 12345;
  world.node(VolumeId{4}).acceptor.fences[BucketId{9}] = BucketNumber{2};
  world.node(VolumeId{5}).acceptor.fences[BucketId{9}] = BucketNumber{6};
  REQUIRE(world.begin(first_volume()));
  CHECK(world.node(kNew).acceptor.horizon == 12345);
  CHECK(world.node(kNew).acceptor.fences[BucketId{9}] == BucketNumber{6});
}

TEST_CASE("without a majority of some group no replacement begins, and nothing has changed") {
  ReplacementWorld world;
  fill(world);
  for (const std::uint64_t lost : {1, 2, 3, 4}) {
    world.node(VolumeId{lost}).acceptor.state = VolumeStatus::State::missing;
  }
  const auto begun = world.begin(first_volume());
  REQUIRE(!begun);
  CHECK(begun.error().code == Errc::unavailable);
  CHECK(!change_of(*world.gateway().membership.map()));
  for (const auto& each : world.cluster.nodes) CHECK(each->acceptor.epoch.value <= 1);
}

TEST_CASE("while some row cannot be brought the new lists do not hold") {
  ReplacementWorld world;
  fill(world);
  const auto& rows = world.node(first_volume()).acceptor.rows;
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& row) {
    return row.first.bucket == world.bucket->record.id;
  });
  REQUIRE(found != rows.end());
  const RegisterKey key = found->first;
  std::vector<FakeAcceptor::Row*> lost;  // with these no majority of its group can be read
  for (const auto& each : world.cluster.nodes) {
    const auto row = each->acceptor.rows.find(key);
    if (each->id() == first_volume() || row == each->acceptor.rows.end()) continue;
    if (lost.size() < 3) lost.push_back(&row->second);
  }
  for (FakeAcceptor::Row* row : lost) row->unreadable = true;
  REQUIRE(world.begin(first_volume()));
  run_until(world.cluster.io, world.cluster.clock, [&] {
    return !world.replacement().status().trouble.empty() || !world.is_joint();
  });
  CHECK(world.is_joint());
  for (FakeAcceptor::Row* row : lost) row->unreadable = false;
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
  const BootTime later = world.cluster.clock.boot() + std::chrono::minutes(1);
  run_until(world.cluster.io, world.cluster.clock,
            [&] { return world.cluster.clock.boot() >= later; });
  CHECK(world.replacement().status().replaced == 0);
  world.end_complete(upload);
  REQUIRE(world.run_until_replaced());
  CHECK(!world.is_named(first_volume()));
  world.check_all();
}

TEST_CASE("a walk over several volumes meets each register once, in order") {
  ReplacementWorld world;
  for (int i = 0; i < 20; ++i) world.put("key" + std::to_string(i), 10);
  std::vector<std::shared_ptr<VolumeClient>> volumes(world.cluster.nodes.begin(),
                                                     world.cluster.nodes.end());
  volumes.pop_back();
  RegisterWalk walk(RowKind::object, volumes, world.cluster.clock);
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
