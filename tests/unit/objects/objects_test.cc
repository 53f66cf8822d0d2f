#include "server/objects/objects.h"

#include <doctest/doctest.h>

#include "server/objects/object_updates.h"
#include "tests/fake/fake_cluster.h"
#include "tests/fake/fake_leases.h"

using namespace penstock;

namespace {
BlobRef blob(std::uint64_t id) {
  BlobRef made;
  made.write_id = WriteId{id, id};
  made.shape = BlobShape{1, 2, 1 << 20, 100};
  made.locations.assign(3, Location{VolumeId{1}, Generation{id}});
  return made;
}

ObjectRecord record_of(const std::string& etag, std::uint64_t blob_id) {
  ObjectRecord record;
  record.etag = etag;
  record.size_bytes = 100;
  PartInfo part;
  part.size_bytes = 100;
  part.blob = blob(blob_id);
  record.parts.push_back(part);
  return record;
}

struct ObjectsFixture {
  FakeCluster cluster;
  std::shared_ptr<const Bucket> bucket = cluster.make_bucket("b");
  Objects& objects = cluster.gateway->objects;

  Result<ObjectRecord> put(ObjectRecord record, Condition condition = {},
                           SharedBytes inline_bytes = nullptr, LeaseKeeper* leases = nullptr) {
    return cluster.run(objects.put(*bucket, "key", std::move(record), std::move(inline_bytes),
                                   std::move(condition), cluster.soon(), leases));
  }
  Result<ObjectRead> get() {
    return cluster.run(objects.get(*bucket, "key", true, cluster.soon()));
  }
  std::vector<Hint> hints() { return cluster.hints_of(Index::object(*bucket, "key").key); }
};

}  // namespace

TEST_CASE("What was put is got, inline bytes with it, until it is removed") {
  ObjectsFixture f;
  CHECK(f.get().error().code == Errc::not_found);
  auto bytes = std::make_shared<const std::string>("small");
  ObjectRecord record;
  record.etag = "e1";
  record.headers["content-type"] = "text/plain";
  REQUIRE(f.put(record, {}, bytes).has_value());
  const auto got = f.get();
  REQUIRE(got.has_value());
  CHECK(got->record.etag == "e1");
  CHECK(got->record.headers == record.headers);
  REQUIRE(got->inline_bytes != nullptr);
  CHECK(*got->inline_bytes == "small");
  const auto remove = [&f] {
    return f.cluster.run(f.objects.remove(*f.bucket, "key", Condition{}, f.cluster.soon()));
  };
  CHECK(remove().has_value());
  CHECK(f.get().error().code == Errc::not_found);
  CHECK(remove().has_value());  // again: nothing to do
}

TEST_CASE("Last-Modified never goes back") {
  ObjectsFixture f;
  ObjectRecord record;
  record.modified = f.cluster.clock.wall();
  REQUIRE(f.put(record).has_value());
  ObjectRecord earlier;
  earlier.modified = record.modified - std::chrono::hours(1);
  CHECK(f.put(earlier).value().modified == record.modified);
  CHECK(f.get().value().record.modified == record.modified);
  ObjectRecord later;
  later.modified = record.modified + std::chrono::hours(1);
  CHECK(f.put(later).value().modified == later.modified);
}

TEST_CASE("A condition that fails changes nothing") {
  ObjectsFixture f;
  CHECK(f.put(record_of("e1", 1), Condition{"e0", ""}).error().code == Errc::not_found);
  CHECK(f.put(record_of("e1", 1), Condition{"", "*"}).has_value());
  CHECK(f.put(record_of("e2", 2), Condition{"", "*"}).error().code == Errc::precondition);
  CHECK(f.put(record_of("e2", 2), Condition{"e2", ""}).error().code == Errc::precondition);
  CHECK(f.get().value().record.etag == "e1");
  CHECK(f.put(record_of("e2", 2), Condition{"e1", ""}).has_value());
  CHECK(f.get().value().record.etag == "e2");
  auto removed =
      f.cluster.run(f.objects.remove(*f.bucket, "key", Condition{"e1", ""}, f.cluster.soon()));
  CHECK(removed.error().code == Errc::precondition);
  CHECK(f.cluster.run(f.objects.fast_check(*f.bucket, "key", Condition{"", "*"})).error().code ==
        Errc::precondition);
}

TEST_CASE("A fast check that cannot tell in time lets the request pass") {
  ObjectsFixture f;
  REQUIRE(f.put(record_of("e1", 1)).has_value());
  for (auto& volume : f.cluster.volumes) {
    volume->acceptor.fate = [](VolumeId, RegisterCall, const RegisterKey&) {
      Fate slow;
      slow.request_delay = std::chrono::milliseconds(200);
      return slow;
    };
  }
  const BootTime before = f.cluster.clock.boot();
  CHECK(f.cluster.run(f.objects.fast_check(*f.bucket, "key", Condition{"", "*"})).has_value());
  CHECK(f.cluster.clock.boot() - before <= std::chrono::milliseconds(60));
}

TEST_CASE("An update leaves a hint for each blob that it frees, and for no other") {
  ObjectsFixture f;
  REQUIRE(f.put(record_of("e1", 1)).has_value());
  CHECK(f.hints().empty());
  REQUIRE(f.put(record_of("e2", 2)).has_value());
  auto hints = f.hints();
  REQUIRE(hints.size() == 1);
  CHECK(hints[0].write_id == WriteId{1, 1});
  CHECK(hints[0].due > f.cluster.clock.wall() + std::chrono::minutes(14));
  CHECK(hints[0].upload_id.empty());
  CHECK(decode_locations(hints[0].write_id, hints[0].locations).value().locations ==
        blob(1).locations);
  auto removed = f.cluster.run(f.objects.remove(*f.bucket, "key", Condition{}, f.cluster.soon()));
  REQUIRE(removed.has_value());
  hints = f.hints();
  REQUIRE(hints.size() == 1);
  CHECK(hints[0].write_id == WriteId{2, 2});
}

TEST_CASE("New metadata keep the blobs, free nothing, and miss an object that changed") {
  ObjectsFixture f;
  REQUIRE(f.put(record_of("e1", 1)).has_value());
  const OpId first = f.get().value().op_id;
  ObjectRecord metadata;
  metadata.etag = "e1";
  metadata.headers["x-amz-meta-a"] = "1";
  auto replace = [&f](OpId expected, ObjectRecord record) {
    return f.cluster.run(f.objects.replace_metadata(*f.bucket, "key", expected, std::move(record),
                                                    f.cluster.soon()));
  };
  REQUIRE(replace(first, metadata).has_value());
  const auto now = f.get().value();
  CHECK(now.record.headers == metadata.headers);
  REQUIRE(now.record.parts.size() == 1);
  CHECK(now.record.parts[0].blob == blob(1));
  CHECK(now.record.size_bytes == 100);
  CHECK(f.hints().empty());
  CHECK(replace(first, metadata).error().code == Errc::precondition);
  auto removed = f.cluster.run(f.objects.remove(*f.bucket, "key", Condition{}, f.cluster.soon()));
  REQUIRE(removed.has_value());
  CHECK(replace(now.op_id, metadata).error().code == Errc::precondition);
  CHECK(replace(OpId{}, metadata).error().code == Errc::precondition);
}

TEST_CASE("New metadata are all that the record says but where its bytes lie") {
  ObjectsFixture f;
  ObjectRecord before = record_of("e1", 1);
  before.owner = "before";
  before.checksums = {{ChecksumAlgorithm::crc32c, ChecksumType::full_object, "abcd"}};
  before.headers["x-amz-meta-a"] = "1";
  before.upload_id = std::string(32, 'a');
  before.attempt = encode_attempt(OpId{1, 2});
  ObjectRecord wanted;
  wanted.etag = "e2";
  wanted.owner = "after";
  wanted.checksums = {{ChecksumAlgorithm::crc32, ChecksumType::full_object, "efgh"}};
  wanted.headers["x-amz-meta-b"] = "2";
  wanted.modified = f.cluster.clock.wall();
  const auto replace = [&](OpId expected) {
    return f.cluster.run(
        f.objects.replace_metadata(*f.bucket, "key", expected, wanted, f.cluster.soon()));
  };
  CHECK(replace(OpId{}).error().code == Errc::precondition);  // there is no object yet
  REQUIRE(f.put(before).has_value());
  const auto written = replace(f.get().value().op_id);
  REQUIRE(written.has_value());
  const ObjectRecord stored = f.get().value().record;
  for (const ObjectRecord& record : {*written, stored}) {
    CHECK(record.etag == wanted.etag);
    CHECK(record.owner == wanted.owner);
    CHECK(record.checksums == wanted.checksums);
    CHECK(record.headers == wanted.headers);
    CHECK(record.modified == wanted.modified);
    CHECK(record.size_bytes == before.size_bytes);
    CHECK(record.parts.front().blob == before.parts.front().blob);
    CHECK(record.upload_id.empty());  // no writer need ask for it any more
    CHECK(record.attempt.empty());
  }
}

TEST_CASE("New metadata miss an object that is replaced after it was read") {
  ObjectsFixture f;
  REQUIRE(f.put(record_of("e1", 1)).has_value());
  f.cluster.settle_down();
  const RegisterKey key = Index::object(*f.bucket, "key").key;
  const OpId read = f.get().value().op_id;
  RegisterValue newer = to_value(record_of("e2", 2), 0);
  newer.op_id = OpId{9, 9};
  newer.chain.push_back(read);
  bool replaced = false;
  for (auto& volume : f.cluster.volumes) {
    volume->acceptor.fate = [&](VolumeId, RegisterCall call, const RegisterKey&) {
      if (call != RegisterCall::prepare || std::exchange(replaced, true)) return Fate{};
      f.cluster.overwrite(key, newer);
      return Fate{};
    };
  }
  ObjectRecord edited = record_of("e1", 1);
  edited.headers["content-type"] = "text/plain";
  const auto stored =
      f.cluster.run(f.objects.replace_metadata(*f.bucket, "key", read, edited, f.cluster.soon()));
  REQUIRE(replaced);
  REQUIRE_FALSE(stored.has_value());
  CHECK(stored.error().code == Errc::precondition);
  CHECK(f.get().value().record.etag == "e2");
}

TEST_CASE("New metadata of an inline object keep its bytes") {
  ObjectsFixture f;
  auto bytes = std::make_shared<const std::string>("small");
  REQUIRE(f.put(ObjectRecord{}, {}, bytes).has_value());
  auto replaced = f.cluster.run(f.objects.replace_metadata(*f.bucket, "key", f.get().value().op_id,
                                                           ObjectRecord{}, f.cluster.soon()));
  REQUIRE(replaced.has_value());
  REQUIRE(f.get().value().inline_bytes != nullptr);
  CHECK(*f.get().value().inline_bytes == "small");
}

TEST_CASE("Leases are looked at after the promise, and without them nothing is written") {
  ObjectsFixture f;
  FakeLeases leases;
  REQUIRE(f.put(record_of("e1", 1), {}, nullptr, &leases).has_value());
  CHECK(leases.asked == 1);
  leases.none_left = true;
  CHECK(f.put(record_of("e2", 2), {}, nullptr, &leases).error().code == Errc::unavailable);
  CHECK(f.get().value().record.etag == "e1");
  // A condition that fails needs no leases.
  leases.asked = 0;
  CHECK(f.put(record_of("e2", 2), Condition{"", "*"}, nullptr, &leases).error().code ==
        Errc::precondition);
  CHECK(leases.asked == 0);
}

TEST_CASE("The record does not name a fragment whose lease was lost after the promise") {
  ObjectsFixture f;
  const BlobRef written = blob(1);
  FakeLeases leases;
  leases.lost = {written.fragment(1)};
  REQUIRE(f.put(record_of("e1", 1), {}, nullptr, &leases).has_value());
  const auto got = f.get().value();
  REQUIRE(got.record.parts.size() == 1);
  const Location there = written.locations[0];
  const std::vector<Location> named = {there, Location{}, there};
  CHECK(got.record.parts[0].blob->locations == named);
}

TEST_CASE("The parts of an object without a manifest are those of its record") {
  ObjectsFixture f;
  ObjectRecord record = record_of("e1", 1);
  record.parts.push_back(record.parts.front());
  record.parts.back().blob = blob(2);
  const auto parts = f.cluster.run(f.objects.parts(record, f.cluster.soon()));
  REQUIRE(parts.has_value());
  REQUIRE(parts->size() == 2);
  CHECK((*parts)[0].blob == blob(1));
  CHECK((*parts)[1].blob == blob(2));
}

TEST_CASE("An attempt id survives its encoding") {
  const OpId attempt{0x0123456789abcdef, 42};
  CHECK(decode_attempt(encode_attempt(attempt)) == attempt);
  CHECK_FALSE(decode_attempt("short"));
  CHECK_FALSE(decode_attempt(encode_attempt(attempt) + "x"));
}
