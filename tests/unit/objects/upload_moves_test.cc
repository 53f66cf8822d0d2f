#include "server/objects/upload_moves.h"

#include <doctest/doctest.h>

#include "tests/fake/fake_cluster.h"
#include "tests/fake/fake_leases.h"

namespace penstock {
namespace {

BlobRef page_blob(std::uint64_t id) {
  BlobRef made;
  made.write_id = WriteId{id, id};
  made.shape = BlobShape{1, 2, 1 << 20, 100};
  for (std::uint64_t slot = 0; slot < 3; ++slot) {
    made.locations.push_back(Location{VolumeId{slot + 1}, Generation{id}});
  }
  return made;
}

struct MovesFixture {
  FakeCluster cluster;
  std::shared_ptr<const Bucket> bucket = cluster.make_bucket("bucket");
  Proposer& proposer = cluster.gateway->proposer;
  std::string id =
      cluster.run(cluster.gateway->multipart.create(*bucket, "key", UploadRecord{}, cluster.soon()))
          .value();
  RegisterRef ref = Index::upload(*bucket, "key", id);

  UploadRecord completing(OpId attempt) {
    UploadRecord record;
    record.attempt = attempt;
    record.object_seen = OpId{5, 6};
    record.if_match = "match";
    record.if_none_match = "none";
    record.complete_digest = "digest";
    record.target.emplace();
    ManifestPage page;
    page.blob = page_blob(1);
    record.target->manifest.push_back(page);
    return record;
  }
  Result<bool> begin(OpId attempt, LeaseKeeper* leases = nullptr) {
    return cluster.run(
        begin_completing(proposer, ref, completing(attempt), leases, cluster.soon()));
  }
  Snapshot now() {
    return cluster.run(proposer.read(ref, ReadWant::value, cluster.soon())).value();
  }
};

}  // namespace

TEST_CASE("An attempt whose pages cannot be pinned does not begin; a page lost is left out") {
  MovesFixture f;
  FakeLeases leases;
  leases.none_left = true;
  CHECK(f.begin(OpId{1, 2}, &leases).error().code == Errc::unavailable);
  CHECK(f.now().kind() == ValueKind::upload_open);
  leases.none_left = false;
  leases.lost = {page_blob(1).fragment(1)};
  REQUIRE(f.begin(OpId{1, 2}, &leases).value());
  CHECK(leases.asked == 2);
  const UploadRecord record = upload_record(*f.now().value).value();
  const auto& locations = record.target->manifest.front().blob.locations;
  CHECK(locations[0] == page_blob(1).locations[0]);
  CHECK(locations[1] == Location{});
  CHECK(locations[2] == page_blob(1).locations[2]);
}

TEST_CASE("An attempt does not begin with parts that were listed before a write-back") {
  MovesFixture f;
  const auto begin = [&f](Ballot seen) {
    return f.cluster.run(begin_completing(f.proposer, f.ref, f.completing(OpId{1, 2}), nullptr,
                                          f.cluster.soon(), seen));
  };
  const Ballot seen = f.now().ballot;
  REQUIRE(f.cluster.run(f.proposer.write_back(f.ref, WriteBack::always, true, f.cluster.soon())));
  CHECK(begin(seen).value() == false);
  CHECK(f.now().kind() == ValueKind::upload_open);
  const Ballot now = f.now().ballot;
  CHECK(now > seen);
  CHECK(begin(now).value());
  CHECK(f.now().kind() == ValueKind::upload_completing);
  CHECK(begin(now).value());  // it stands there already
}

TEST_CASE("An upload that completes says what whoever goes on with it must know") {
  MovesFixture f;
  REQUIRE(f.begin(OpId{1, 2}).value());
  const UploadRecord record = upload_record(*f.now().value).value();
  CHECK(record.attempt == OpId{1, 2});
  CHECK(record.object_seen == OpId{5, 6});
  CHECK(record.if_match == "match");
  CHECK(record.if_none_match == "none");
  CHECK(record.complete_digest == "digest");
  CHECK(record.target.value().manifest.size() == 1);
}

TEST_CASE("A part is not stored unless its fragments are pinned, and names none that are not") {
  MovesFixture f;
  Multipart& multipart = f.cluster.gateway->multipart;
  PartInfo part;
  part.number = 1;
  part.size_bytes = 100;
  part.blob = page_blob(2);
  FakeLeases leases;
  leases.none_left = true;
  const auto put = [&] {
    return f.cluster.run(
        multipart.put_part(*f.bucket, "key", f.id, part, f.cluster.soon(), &leases));
  };
  const auto stored = [&] {
    return f.cluster
        .run(f.cluster.gateway->index.list_parts(f.bucket, "key", f.id, f.cluster.soon()))
        .value();
  };
  CHECK(put().error().code == Errc::unavailable);
  CHECK(stored().empty());
  leases.none_left = false;
  leases.lost = {page_blob(2).fragment(0)};
  REQUIRE(put().has_value());
  REQUIRE(stored().size() == 1);
  CHECK(stored().front().blob->locations[0] == Location{});
  CHECK(stored().front().blob->locations[1] == page_blob(2).locations[1]);
}

TEST_CASE("No arrow of one attempt moves an upload that stands at another one") {
  const OpId own{1, 2}, other{3, 4};
  for (const bool reopening : {false, true}) {
    CAPTURE(reopening);
    MovesFixture f;
    REQUIRE(f.begin(own).value());
    const Deadline soon = f.cluster.soon();
    if (reopening) REQUIRE(f.cluster.run(begin_reopening(f.proposer, f.ref, own, soon)).value());
    const ValueKind before = f.now().kind();
    CHECK_FALSE(f.begin(other).value());
    CHECK_FALSE(f.cluster.run(begin_reopening(f.proposer, f.ref, other, soon)).value());
    CHECK_FALSE(f.cluster.run(finish_done(f.proposer, f.ref, other, {}, soon)).value());
    CHECK_FALSE(f.cluster.run(finish_reopening(f.proposer, f.ref, other, {}, soon)).value());
    CHECK(f.now().kind() == before);
  }
}

TEST_CASE("A reopened upload keeps nothing of the attempt that was given up, and hints its pages") {
  MovesFixture f;
  const OpId attempt{1, 2};
  REQUIRE(f.begin(attempt).value());
  const Deadline soon = f.cluster.soon();
  REQUIRE(f.cluster.run(begin_reopening(f.proposer, f.ref, attempt, soon)).value());
  const WallTime due = f.cluster.clock.wall() + std::chrono::minutes(15);
  REQUIRE(f.cluster.run(finish_reopening(f.proposer, f.ref, attempt, due, soon)).value());
  f.cluster.settle_down();
  CHECK(f.now().kind() == ValueKind::upload_open);
  const UploadRecord record = upload_record(*f.now().value).value();
  CHECK_FALSE(record.target);
  CHECK(record.object_seen == OpId{});
  CHECK(record.if_match.empty());
  CHECK(record.if_none_match.empty());
  CHECK(record.complete_digest.empty());
  const auto hints = f.cluster.hints_of(f.ref.key);
  REQUIRE(hints.size() == 1);
  CHECK(hints[0].write_id == page_blob(1).write_id);
  CHECK(hints[0].due == due);
  CHECK(hints[0].upload_id == f.id);
  // That attempt moves it no more, though its id is still there to tell a repeated arrow.
  CHECK_FALSE(f.cluster.run(finish_done(f.proposer, f.ref, attempt, {}, soon)).value());
  CHECK_FALSE(f.cluster.run(begin_reopening(f.proposer, f.ref, attempt, soon)).value());
  CHECK(f.cluster.run(finish_reopening(f.proposer, f.ref, attempt, due, soon)).value());
  CHECK(f.now().kind() == ValueKind::upload_open);
}

TEST_CASE("No arrow begins where there is no upload") {
  MovesFixture f;
  f.ref = Index::upload(*f.bucket, "key", std::string(32, 'z'));
  const OpId attempt{1, 2};
  const Deadline soon = f.cluster.soon();
  CHECK_FALSE(f.begin(attempt).value());
  CHECK_FALSE(f.cluster.run(abort_open(f.proposer, f.ref, {}, soon)).value());
  CHECK_FALSE(f.cluster.run(finish_done(f.proposer, f.ref, attempt, {}, soon)).value());
  CHECK_FALSE(f.cluster.run(begin_reopening(f.proposer, f.ref, attempt, soon)).value());
  CHECK_FALSE(f.cluster.run(finish_reopening(f.proposer, f.ref, attempt, {}, soon)).value());
  CHECK(f.now().kind() == ValueKind::absent);
}

TEST_CASE("An upload that is done keeps its answer, not what its object owns now") {
  MovesFixture f;
  const OpId attempt{1, 2};
  UploadRecord begun = f.completing(attempt);
  begun.target->etag = "etag";
  begun.target->parts.resize(1);
  const Deadline soon = f.cluster.soon();
  REQUIRE(f.cluster.run(begin_completing(f.proposer, f.ref, begun, nullptr, soon)).value());
  REQUIRE(f.cluster.run(finish_done(f.proposer, f.ref, attempt, {}, soon)).value());
  CHECK(f.now().kind() == ValueKind::upload_done);
  const UploadRecord record = upload_record(*f.now().value).value();
  CHECK(record.etag == "etag");
  CHECK(record.complete_digest == "digest");
  CHECK(record.if_match.empty());
  CHECK(record.if_none_match.empty());
  REQUIRE(record.target);
  CHECK(record.target->etag == "etag");
  CHECK(record.target->parts.empty());
  CHECK(record.target->manifest.empty());
}

}  // namespace penstock
