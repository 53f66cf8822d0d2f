#include "server/background/removal/stray_rows.h"

#include <doctest/doctest.h>

#include "tests/unit/background/background_world.h"

namespace penstock {
namespace {

struct StrayFixture : BackgroundWorld {
  StrayRows rows{context};
  bool sweep() { return pass(rows); }
  // What the replicas hold of a register, by kind.
  std::size_t held(const RegisterKey& key, ValueKind kind) {
    std::size_t count = 0;
    for (const auto& volume : cluster.volumes) {
      const auto found = volume->acceptor.rows.find(key);
      if (found == volume->acceptor.rows.end()) continue;
      const auto head = decode_head(*found->second.accepted.value);
      count += head && head->kind == kind ? 1 : 0;
    }
    return count;
  }
  using BackgroundWorld::held;
  std::uint64_t ended() { return context.board->read().stray_rows_ended; }
};

}  // namespace

TEST_CASE("rows of buckets and uploads that are there stay") {
  StrayFixture f;
  const BlobRef blob = f.put();
  auto made =
      f.cluster.run(f.multipart().create(*f.bucket, "big", UploadRecord{}, f.cluster.soon()));
  REQUIRE(made.has_value());
  PartInfo part;
  part.number = 1;
  part.blob = f.write("big", *made);
  REQUIRE(f.cluster.run(f.multipart().put_part(*f.bucket, "big", *made, part, f.cluster.soon())));
  f.cluster.settle_down();
  CHECK(f.sweep());
  CHECK(f.ended() == 0);
  CHECK(f.held(Index::object(*f.bucket, "key").key, ValueKind::object) == 5);
  CHECK(f.held(Index::part(*f.bucket, "big", *made, 1).key, ValueKind::part) == 5);
}

TEST_CASE("an object of a bucket that is gone ends, wherever its row is, and frees its blob") {
  for (std::size_t only = 0; only < 6; ++only) {  // at one replica, or (5) at all
    CAPTURE(only);
    StrayFixture f;
    const BlobRef blob = f.put();
    const RegisterKey key = Index::object(*f.bucket, "key").key;
    const auto replicas = f.replicas();
    std::map<VolumeId, FakeAcceptor::Row> kept;
    for (const VolumeId id : replicas) {
      kept[id] = f.volume(id).acceptor.rows.at(key);
      f.volume(id).acceptor.rows.erase(key);
    }
    REQUIRE(f.cluster.run(f.cluster.gateway->index.delete_bucket("bucket", f.cluster.soon())));
    f.cluster.settle_down();
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      if (only == 5 || only == i) f.volume(replicas[i]).acceptor.rows[key] = kept[replicas[i]];
    }
    f.cluster.clock.advance(6 * Duration(limits::kHintTakeover));  // the last one's turn, too
    CHECK(f.sweep());
    CHECK(f.held(key, ValueKind::object) == 0);
    CHECK(f.held(key, ValueKind::tombstone) == 5);
    CHECK(f.ended() >= 1);
    if (only == 5) CHECK(f.hints() == 5);
  }
}

TEST_CASE("a bucket that was there in one pass may be gone in the next") {
  StrayFixture f;
  f.put();
  CHECK(f.sweep());
  const RegisterKey key = Index::object(*f.bucket, "key").key;
  std::map<VolumeId, FakeAcceptor::Row> kept;
  for (const VolumeId id : f.replicas()) {
    kept[id] = f.volume(id).acceptor.rows.at(key);
    f.volume(id).acceptor.rows.erase(key);
  }
  REQUIRE(f.cluster.run(f.cluster.gateway->index.delete_bucket("bucket", f.cluster.soon())));
  f.cluster.settle_down();
  for (const auto& [id, row] : kept) f.volume(id).acceptor.rows[key] = row;
  CHECK(f.sweep());
  CHECK(f.held(key, ValueKind::object) == 0);
}

TEST_CASE("an object of a bucket made after the buckets were listed stays") {
  StrayFixture f;
  auto gone = f.cluster.make_bucket("gone");
  auto made = f.cluster.make_bucket("made");
  if (made->record.id < gone->record.id) std::swap(gone, made);  // rows are met in this order
  for (const auto& bucket : {gone, made}) {
    const auto stored = f.cluster.run(
        f.objects().put(*bucket, "key", ObjectRecord{}, nullptr, Condition{}, f.cluster.soon()));
    REQUIRE(stored.has_value());
  }
  f.cluster.settle_down();
  const RegisterKey of_gone = BucketCatalog::register_of(gone->name).key;
  const RegisterKey of_made = BucketCatalog::register_of(made->name).key;
  std::map<VolumeId, FakeAcceptor::Row> later;
  for (auto& volume : f.cluster.volumes) {
    auto& rows_there = volume->acceptor.rows;
    rows_there.erase(of_gone);
    if (rows_there.contains(of_made)) later[volume->id()] = rows_there[of_made];
    rows_there.erase(of_made);
  }
  int scans = 0;
  for (auto& volume : f.cluster.volumes) {
    volume->before_scan = [&](const ScanRequest&) {
      if (++scans != 4) return;  // the first list asked a majority, three of five
      for (const auto& [id, row] : later) f.volume(id).acceptor.rows[of_made] = row;
    };
  }
  CHECK(f.sweep());
  CHECK(scans > 3);
  CHECK(f.held(Index::object(*gone, "key").key, ValueKind::object) == 0);
  CHECK(f.held(Index::object(*made, "key").key, ValueKind::object) == 5);
}

TEST_CASE("a part of an upload that is gone ends") {
  StrayFixture f;
  auto made =
      f.cluster.run(f.multipart().create(*f.bucket, "big", UploadRecord{}, f.cluster.soon()));
  REQUIRE(made.has_value());
  PartInfo part;
  part.number = 1;
  part.blob = f.write("big", *made);
  REQUIRE(f.cluster.run(f.multipart().put_part(*f.bucket, "big", *made, part, f.cluster.soon())));
  f.cluster.settle_down();
  const RegisterKey upload = Index::upload(*f.bucket, "big", *made).key;
  for (const auto& volume : f.cluster.volumes) volume->acceptor.rows.erase(upload);
  CHECK(f.sweep());
  const RegisterKey key = Index::part(*f.bucket, "big", *made, 1).key;
  CHECK(f.held(key, ValueKind::part) == 0);
  CHECK(f.held(key, ValueKind::tombstone) == 5);
}

TEST_CASE("while the buckets cannot be listed nothing is taken for a stray") {
  StrayFixture f;
  f.put();
  for (auto& volume : f.cluster.volumes) volume->fail_scans = true;
  CHECK_FALSE(f.sweep());
  CHECK(f.ended() == 0);
}

TEST_CASE("parts of many pages end once their upload is gone, which the last pass saw alive") {
  StrayFixture f;
  f.context.options.page_rows = 1;
  StrayRows rows(f.context);
  auto made =
      f.cluster.run(f.multipart().create(*f.bucket, "big", UploadRecord{}, f.cluster.soon()));
  REQUIRE(made.has_value());
  for (std::uint16_t number = 1; number <= 4; ++number) {
    PartInfo part;
    part.number = number;
    REQUIRE(f.cluster.run(f.multipart().put_part(*f.bucket, "big", *made, part, f.cluster.soon())));
  }
  f.cluster.settle_down();
  CHECK(f.pass(rows));
  CHECK(f.ended() == 0);
  const RegisterKey upload = Index::upload(*f.bucket, "big", *made).key;
  for (const auto& volume : f.cluster.volumes) volume->acceptor.rows.erase(upload);
  CHECK(f.pass(rows));
  for (std::uint16_t number = 1; number <= 4; ++number) {
    CHECK(f.held(Index::part(*f.bucket, "big", *made, number).key, ValueKind::part) == 0);
  }
}

}  // namespace penstock
