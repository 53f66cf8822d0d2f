#include "server/background/replacement/register_repair.h"

#include <doctest/doctest.h>

#include "server/blobs/manifest.h"
#include "tests/unit/background/background_world.h"

namespace penstock {
namespace {

struct RepairFixture : BackgroundWorld {
  RegisterRepair repairs{cluster.gateway->proposer, cluster.gateway->blobs, cluster.clock};
  const RegisterRef ref = Index::object(*bucket, "key");

  // A blob with one slot that was never written, on the volume that failed meanwhile.
  BlobRef write_short(const std::string& upload_id = "") {
    FakeHolder& failing = cluster.volumes[2]->fragments;
    failing.faults.fail_commit = true;
    BlobRef blob = write("key", upload_id);
    failing.faults.fail_commit = false;
    cluster.gateway->membership.report_durable(failing.id());  // it answers its probe
    return blob;
  }
  BlobRef put_short() {
    BlobRef blob = write_short();
    name(blob);
    return blob;
  }
  // Part 1 of a new upload, whose id is answered, the same way.
  std::string put_short_part() {
    std::string id =
        cluster.run(multipart().create(*bucket, "key", UploadRecord{}, cluster.soon())).value();
    PartInfo part;
    part.number = 1;
    part.blob = write_short(id);
    part.size_bytes = part.blob->shape.size_bytes;
    REQUIRE(cluster.run(multipart().put_part(*bucket, "key", id, part, cluster.soon())));
    cluster.settle_down();
    return id;
  }
  static std::size_t missing(const BlobRef& blob) {
    return static_cast<std::size_t>(
        std::count(blob.locations.begin(), blob.locations.end(), Location{}));
  }
  RegisterHealth examine(const RegisterRef& of) {
    return cluster.run(repairs.examine(of, false, cluster.soon())).value();
  }
  Repaired repair(const RegisterRef& of) {
    auto done = cluster.run(repairs.repair(of, cluster.soon())).value();
    cluster.settle_down();
    return done;
  }
  Snapshot now() {
    return cluster.run(cluster.gateway->proposer.read(ref, ReadWant::value, cluster.soon()))
        .value();
  }
  BlobRef blob_now() { return *object_record(*now().value).value().parts.front().blob; }
  // What lies on the volume under this id, as its list says it.
  FragmentOwner owner_of(VolumeId holder, FragmentId id) {
    for (auto& entry :
         cluster.run(volume(holder).fragments.list_fragments(std::nullopt, 100, cluster.soon()))
             .value()) {
      if (entry.id == id) return entry.owner;
    }
    return {};
  }
};

}  // namespace

TEST_CASE("a slot that was never written is made again, and the record keeps what else it says") {
  RepairFixture f;
  const BlobRef blob = f.put_short();
  REQUIRE(RepairFixture::missing(blob) == 1);
  const Snapshot before = f.now();
  const RegisterHealth sick = f.examine(f.ref);
  const auto slot = static_cast<std::uint32_t>(
      std::find(blob.locations.begin(), blob.locations.end(), Location{}) - blob.locations.begin());
  const std::uint64_t bytes = Layout::make(blob.shape).value().fragment_bytes(slot);
  CHECK(sick.misplaced == 1);
  CHECK(sick.missing == 1);
  CHECK(sick.bytes == bytes);
  CHECK(sick.spares == 1);
  CHECK_FALSE(sick.waits);
  const Repaired done = f.repair(f.ref);
  CHECK(done.fragments == 1);
  CHECK(done.bytes == bytes);
  CHECK(done.unplaced == 0);
  const Snapshot after = f.now();
  CHECK(after.op_id() == before.op_id());
  CHECK(after.value->origin == before.value->origin);
  CHECK(after.value->chain == before.value->chain);
  CHECK(after.value->revision == before.value->revision + 1);
  const BlobRef whole = f.blob_now();
  CHECK(RepairFixture::missing(whole) == 0);
  CHECK(f.held(whole) == 6);
  CHECK(f.owner_of(whole.locations[slot].volume, whole.fragment(slot)) ==
        Index::owner(*f.bucket, "key"));
  CHECK(f.examine(f.ref).missing == 0);
  CHECK(f.examine(f.ref).misplaced == 0);
  CHECK(f.hints() == 0);
  CHECK(f.repair(f.ref).fragments == 0);
  CHECK(f.now().ballot == after.ballot);  // nothing to do writes nothing
}

TEST_CASE("where there is no volume for it a missing slot is counted, and is nothing to be done") {
  RepairFixture f;
  f.put_short();
  f.cluster.volumes[2]->fragments.faults.state = VolumeStatus::State::closed;
  f.cluster.volumes[2]->acceptor.state = VolumeStatus::State::closed;
  CHECK(f.examine(f.ref).missing == 1);
  CHECK(f.examine(f.ref).misplaced == 0);
}

TEST_CASE("what cannot be made again is told with its reason, and the record stays") {
  RepairFixture f;
  f.put_short();
  const Ballot before = f.now().ballot;
  f.cluster.volumes[2]->fragments.faults.fail_open = true;
  const Repaired done = f.repair(f.ref);
  CHECK(done.fragments == 0);
  CHECK(done.unplaced == 1);
  CHECK(done.why.code == Errc::io);
  CHECK(f.now().ballot == before);
}

TEST_CASE("a record that changed while its fragment was made again is left as it is") {
  RepairFixture f;
  const BlobRef old = f.put_short();
  BlobRef moved = old;  // by another repair: the same slot has its place already
  for (Location& location : moved.locations) {
    if (location == Location{}) location = Location{f.cluster.volumes[2]->id(), Generation{7}};
  }
  std::vector<BlobRef> others = {f.write(), moved};
  for (int i = 0; i < 12; ++i) others.push_back(f.write_short());  // some lack the same slot
  for (const BlobRef& other : others) {
    bool overwritten = false;
    for (auto& volume : f.cluster.volumes) {
      volume->acceptor.fate = [&](VolumeId, RegisterCall call, const RegisterKey& key) {
        if (overwritten || call != RegisterCall::prepare || key != f.ref.key) return Fate{};
        overwritten = true;
        f.cluster.overwrite(key, to_value(BackgroundWorld::record_of(other), 0));
        return Fate{};
      };
    }
    f.repair(f.ref);
    for (auto& volume : f.cluster.volumes) volume->acceptor.fate = nullptr;
    REQUIRE(overwritten);
    CHECK(f.blob_now() == other);
    f.cluster.overwrite(f.ref.key, to_value(BackgroundWorld::record_of(old), 0));
  }
}

TEST_CASE("a part is made whole while its upload is open, and is nobody's afterwards") {
  RepairFixture f;
  const std::string id = f.put_short_part();
  const RegisterRef stored = Index::part(*f.bucket, "key", id, 1);
  CHECK(f.examine(stored).misplaced == 1);
  CHECK(f.examine(stored).missing == 1);
  REQUIRE(f.cluster.run(f.multipart().abort(*f.bucket, "key", id, f.cluster.soon())));
  f.cluster.settle_down();
  const RegisterHealth ended = f.examine(stored);
  CHECK(ended.misplaced == 0);
  CHECK(ended.missing == 0);
  CHECK_FALSE(ended.waits);
}

TEST_CASE("for a part whose upload is being completed nothing is made that its row cannot name") {
  for (const ValueKind state : {ValueKind::upload_completing, ValueKind::upload_reopening}) {
    CAPTURE(static_cast<int>(state));
    RepairFixture f;
    const std::string id = f.put_short_part();
    UploadRecord completing;
    completing.attempt = OpId{7, 7};
    f.cluster.overwrite(Index::upload(*f.bucket, "key", id).key, to_value(completing, state));
    const RegisterHealth health = f.examine(Index::part(*f.bucket, "key", id, 1));
    CHECK(health.misplaced == 0);
    CHECK(health.waits);  // it may be given up, and the part is an open upload's again
  }
}

TEST_CASE("what the manifest of an upload that is being completed names is waited for") {
  RepairFixture f;
  for (const bool is_short : {false, true}) {
    CAPTURE(is_short);
    const std::string id =
        f.cluster.run(f.multipart().create(*f.bucket, "key", UploadRecord{}, f.cluster.soon()))
            .value();
    PartInfo part =
        BackgroundWorld::record_of(is_short ? f.write_short(id) : f.write("key", id)).parts.front();
    part.number = 1;
    ManifestWriter pages(f.cluster.gateway->blobs, Index::owner(*f.bucket, "key", id));
    const std::vector<PartInfo> parts{part};
    UploadRecord completing;
    completing.attempt = OpId{7, 7};
    completing.target.emplace();
    completing.target->manifest = f.cluster.run(pages.write(parts, f.cluster.soon())).value();
    const RegisterRef upload = Index::upload(*f.bucket, "key", id);
    f.cluster.overwrite(upload.key, to_value(completing, ValueKind::upload_completing));
    CHECK(f.examine(upload).waits == is_short);
    CHECK(f.examine(upload).misplaced == 0);
  }
}

TEST_CASE("the fragments of a part carry its upload's id wherever they are made again") {
  RepairFixture f;
  const std::string id = f.put_short_part();
  const RegisterRef stored = Index::part(*f.bucket, "key", id, 1);
  REQUIRE(f.repair(stored).fragments == 1);
  const auto now =
      f.cluster.run(f.cluster.gateway->proposer.read(stored, ReadWant::value, f.cluster.soon()));
  const BlobRef whole = *part_info(*now.value().value).value().blob;
  REQUIRE(RepairFixture::missing(whole) == 0);
  for (std::uint32_t slot = 0; slot < 6; ++slot) {
    CHECK(f.owner_of(whole.locations[slot].volume, whole.fragment(slot)) ==
          Index::owner(*f.bucket, "key", id));
  }
}

TEST_CASE("a Complete that begins just before its upload gets a new ballot is waited for") {
  RepairFixture f;
  const std::string id = f.put_short_part();
  const RegisterRef upload = Index::upload(*f.bucket, "key", id);
  const auto part = f.cluster.run(f.cluster.gateway->proposer.read(
      Index::part(*f.bucket, "key", id, 1), ReadWant::value, f.cluster.soon()));
  UploadRecord completing;
  completing.attempt = OpId{7, 7};
  completing.target = BackgroundWorld::record_of(*part_info(*part->value).value().blob);
  bool begun = false;
  for (auto& volume : f.cluster.volumes) {
    volume->acceptor.fate = [&](VolumeId, RegisterCall call, const RegisterKey& key) {
      if (call != RegisterCall::prepare || key != upload.key) return Fate{};
      if (std::exchange(begun, true)) return Fate{};
      f.cluster.overwrite(upload.key, to_value(completing, ValueKind::upload_completing));
      return Fate{};
    };
  }
  const auto health = f.cluster.run(f.repairs.examine(upload, true, f.cluster.soon()));
  REQUIRE(begun);
  REQUIRE(health);
  CHECK(health->waits);
}

}  // namespace penstock
