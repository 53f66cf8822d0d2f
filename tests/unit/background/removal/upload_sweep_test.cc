#include "server/background/removal/upload_sweep.h"

#include <doctest/doctest.h>

#include "server/objects/upload_moves.h"
#include "tests/unit/background/background_world.h"

namespace penstock {
namespace {

struct UploadFixture : BackgroundWorld {
  UploadSweep uploads{context};
  std::string id;

  UploadFixture() {
    UploadRecord record;
    record.initiated = cluster.clock.wall();
    id = cluster.run(multipart().create(*bucket, "key", record, cluster.soon())).value();
  }
  void sweep() { pass(uploads); }
  // It has seen an attempt before, so it knows by then that it has stopped.
  void sweep_later() {
    sweep();
    cluster.clock.advance(limits::kRollForwardAfter);
    sweep();
  }
  BlobRef put_part() {
    const BlobRef blob = write("key", id);
    PartInfo part;
    part.number = 1;
    part.size_bytes = blob.shape.size_bytes;
    part.blob = blob;
    REQUIRE(cluster.run(multipart().put_part(*bucket, "key", id, part, cluster.soon())));
    cluster.settle_down();
    return blob;
  }
  ValueKind kind_of(const RegisterRef& ref) {
    auto now = cluster.run(cluster.gateway->proposer.read(ref, ReadWant::value, cluster.soon()));
    return now ? now->kind() : ValueKind::absent;
  }
  ValueKind upload() { return kind_of(Index::upload(*bucket, "key", id)); }
  ValueKind part() { return kind_of(Index::part(*bucket, "key", id, 1)); }
  ValueKind object() { return kind_of(Index::object(*bucket, "key")); }
  // As a Complete that died behind its first step.
  void begin_complete(const BlobRef& blob) {
    auto seen = cluster.run(cluster.gateway->proposer.read(Index::object(*bucket, "key"),
                                                           ReadWant::value, cluster.soon()));
    UploadRecord completing;
    completing.attempt = cluster.gateway->proposer.new_op_id();
    completing.object_seen = seen.value().op_id();
    completing.target = record_of(blob);
    auto begun =
        cluster.run(begin_completing(cluster.gateway->proposer, Index::upload(*bucket, "key", id),
                                     completing, nullptr, cluster.soon()));
    REQUIRE(begun.value());
    cluster.settle_down();
  }
};

}  // namespace

TEST_CASE("an upload left open for a week is aborted, and what it held is freed by hints") {
  UploadFixture f;
  f.put_part();
  f.cluster.clock.advance(limits::kUploadExpiry - std::chrono::minutes(10));
  f.sweep();
  CHECK(f.upload() == ValueKind::upload_open);
  f.cluster.clock.advance(std::chrono::minutes(20));
  f.sweep();
  CHECK(f.upload() == ValueKind::upload_aborted);
  CHECK(f.hints() == 5);
  CHECK(f.context.board->read().uploads_expired == 1);
}

TEST_CASE("an ended upload is forgotten after a day: its parts first, then itself") {
  UploadFixture f;
  f.put_part();
  REQUIRE(f.cluster.run(f.multipart().abort(*f.bucket, "key", f.id, f.cluster.soon())));
  f.cluster.settle_down();
  f.sweep();
  CHECK(f.upload() == ValueKind::upload_aborted);
  CHECK(f.part() == ValueKind::part);
  f.cluster.clock.advance(limits::kUploadKept + std::chrono::minutes(1));
  f.sweep();
  CHECK(f.upload() == ValueKind::tombstone);
  CHECK(f.part() == ValueKind::tombstone);
  CHECK(f.context.board->read().uploads_forgotten == 1);
}

TEST_CASE("a row that a minority holds does not stay: a complete write-back reaches all replicas") {
  UploadFixture f;
  const auto replicas = f.replicas();
  const RegisterKey key = Index::upload(*f.bucket, "key", f.id).key;
  for (std::size_t i = 1; i < replicas.size(); ++i) f.volume(replicas[i]).acceptor.rows.erase(key);
  f.sweep();
  const Ballot first = f.volume(replicas[0]).acceptor.rows.at(key).accepted.ballot;
  for (const VolumeId replica : replicas) {
    REQUIRE(f.volume(replica).acceptor.rows.contains(key));
    CHECK(f.volume(replica).acceptor.rows.at(key).accepted.ballot == first);
  }
}

TEST_CASE("a Complete that stopped half-way is rolled forward, when it can live no more") {
  UploadFixture f;
  f.begin_complete(f.put_part());
  f.sweep();
  CHECK(f.upload() == ValueKind::upload_completing);
  f.sweep_later();
  CHECK(f.object() == ValueKind::object);
  CHECK(f.upload() == ValueKind::upload_done);
}

TEST_CASE("that a Complete has stopped two looks tell, not the wall clock") {
  UploadFixture f;
  const BlobRef blob = f.put_part();
  f.begin_complete(blob);
  f.cluster.clock.set_wall(f.cluster.clock.wall() + std::chrono::hours(1));
  f.sweep();
  CHECK(f.uploads.waits());
  f.cluster.clock.advance(limits::kRollForwardAfter - std::chrono::seconds(5));
  f.sweep();
  CHECK(f.upload() == ValueKind::upload_completing);
  // Another ballot: whoever has moved it lives, or did so until now.
  const RegisterRef ref = Index::upload(*f.bucket, "key", f.id);
  auto moved =
      f.cluster.gateway->proposer.write_back(ref, WriteBack::complete, true, f.cluster.soon());
  REQUIRE(f.cluster.run(std::move(moved)).has_value());
  f.cluster.settle_down();
  f.cluster.clock.advance(std::chrono::seconds(10));
  f.sweep();
  CHECK(f.upload() == ValueKind::upload_completing);
  f.cluster.clock.set_wall(f.cluster.clock.wall() - std::chrono::hours(5));
  f.cluster.clock.advance(limits::kRollForwardAfter);
  f.sweep();
  CHECK(f.upload() == ValueKind::upload_done);
  f.sweep();
  CHECK_FALSE(f.uploads.waits());
}

TEST_CASE("a half-way Complete whose object has changed since is given up") {
  UploadFixture f;
  f.begin_complete(f.put_part());
  const BlobRef newer = f.put();
  f.sweep_later();
  CHECK(f.upload() == ValueKind::upload_open);
  auto now = f.cluster.run(f.objects().get(*f.bucket, "key", false, f.cluster.soon()));
  CHECK(now.value().record.parts.front().blob == newer);
}

TEST_CASE("the uploads of a deleted bucket end at once, completing ones as well") {
  for (const bool completing : {false, true}) {
    CAPTURE(completing);
    UploadFixture f;
    const BlobRef blob = f.put_part();
    if (completing) f.begin_complete(blob);
    REQUIRE(f.cluster.run(f.cluster.gateway->index.delete_bucket("bucket", f.cluster.soon())));
    f.sweep_later();
    f.sweep();
    const RegisterRef ref = upload_of(Index::owner(*f.bucket, "key", f.id));
    CHECK(f.kind_of(ref) == ValueKind::upload_aborted);
    CHECK(f.kind_of(object_of(Index::owner(*f.bucket, "key"))) != ValueKind::object);
  }
}

TEST_CASE("an upload is looked after in its own bucket, whatever other buckets there are") {
  UploadFixture f;
  f.put_part();
  f.cluster.make_bucket("a-bucket");
  f.cluster.make_bucket("z-bucket");
  f.cluster.clock.advance(limits::kUploadExpiry + std::chrono::minutes(10));
  f.sweep();
  CHECK(f.upload() == ValueKind::upload_aborted);
}

TEST_CASE("while its bucket is being deleted a half-way Complete is left to the deleter") {
  UploadFixture f;
  f.begin_complete(f.put_part());
  f.cluster.move_bucket(*f.bucket, BucketState::deleting, BucketNumber{2});
  f.sweep_later();
  CHECK(f.upload() == ValueKind::upload_completing);
  CHECK(f.object() != ValueKind::object);
}

TEST_CASE("uploads of many pages are all looked after") {
  UploadFixture f;
  f.context.options.page_rows = 1;
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) {
    UploadRecord record;
    record.initiated = f.cluster.clock.wall();
    ids.push_back(
        f.cluster.run(f.multipart().create(*f.bucket, "more", record, f.cluster.soon())).value());
  }
  f.cluster.clock.advance(limits::kUploadExpiry + std::chrono::minutes(10));
  UploadSweep uploads(f.context);
  CHECK(f.pass(uploads));
  for (const std::string& id : ids) {
    CHECK(f.kind_of(Index::upload(*f.bucket, "more", id)) == ValueKind::upload_aborted);
  }
  CHECK(f.upload() == ValueKind::upload_aborted);
}

TEST_CASE("the group's next volume looks after an upload when its turn has come, not before") {
  UploadFixture f;
  const auto replicas = f.replicas();
  f.context.local = {replicas[1]};
  f.context.options.upload_expiry = Duration{};
  UploadSweep next(f.context);
  f.cluster.clock.advance(f.context.options.takeover - std::chrono::seconds(10));
  CHECK(f.pass(next));
  CHECK(f.upload() == ValueKind::upload_open);
  f.cluster.clock.advance(std::chrono::seconds(20));
  CHECK(f.pass(next));
  CHECK(f.upload() == ValueKind::upload_aborted);
}

TEST_CASE("an upload of a bucket made while the sweep began is not that of a deleted one") {
  UploadFixture f;
  f.put_part();
  const RegisterKey key = BucketCatalog::register_of("bucket").key;
  std::map<VolumeId, FakeAcceptor::Row> later;
  for (auto& volume : f.cluster.volumes) {
    if (volume->acceptor.rows.contains(key)) later[volume->id()] = volume->acceptor.rows[key];
    volume->acceptor.rows.erase(key);
    volume->acceptor.before_list = [&] {  // its first volume is asked for rows
      for (const auto& [id, row] : std::exchange(later, {})) f.volume(id).acceptor.rows[key] = row;
    };
  }
  REQUIRE(later.size() == 5);
  f.context.local = {f.replicas().front()};  // whose turn it is
  f.sweep();
  CHECK(later.empty());
  CHECK(f.upload() == ValueKind::upload_open);
}

TEST_CASE("an upload that has just ended stays, however old the row that one volume still has") {
  UploadFixture f;
  const BlobRef blob = f.put_part();
  const RegisterKey key = Index::upload(*f.bucket, "key", f.id).key;
  FakeVolume& first = f.volume(f.replicas().front());
  const FakeAcceptor::Row open = first.acceptor.rows.at(key);
  f.cluster.clock.advance(Duration(limits::kUploadKept) + std::chrono::hours(1));
  f.begin_complete(blob);
  f.sweep_later();
  REQUIRE(f.upload() == ValueKind::upload_done);
  first.acceptor.rows[key] = open;  // it was away meanwhile
  f.sweep();
  CHECK(f.upload() == ValueKind::upload_done);
  CHECK(f.part() == ValueKind::part);
}

}  // namespace penstock
