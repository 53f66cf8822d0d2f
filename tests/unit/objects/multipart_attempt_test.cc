// Attempts of a Complete that meet others: conditions that fail late, uploads that were moved,
// reopenings that somebody left behind.
#include <doctest/doctest.h>

#include <functional>

#include "tests/unit/objects/multipart_world.h"

namespace penstock {
namespace {

// At the first prepare on the object, i.e. when the attempt has begun and nothing is applied yet.
void before_apply(MultipartFixture& f, std::function<void()> change) {
  auto left = std::make_shared<bool>(true);
  for (auto& volume : f.cluster.volumes) {
    volume->acceptor.fate = [left, change](VolumeId, RegisterCall call, const RegisterKey& key) {
      const bool now = call == RegisterCall::prepare && key.kind == RowKind::object;
      if (now && std::exchange(*left, false)) change();
      return Fate{};
    };
  }
}
}  // namespace

TEST_CASE("A Complete says so when its condition begins to fail after the object was looked at") {
  MultipartFixture f;
  REQUIRE(f.put("old").has_value());
  const OpId old = f.get().value().op_id;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
  f.cluster.settle_down();
  ObjectRecord record;
  record.etag = "racer";
  RegisterValue racer = to_value(record, 0);
  racer.op_id = OpId{9, 9};
  racer.chain.push_back(old);
  before_apply(f, [&] { f.cluster.overwrite(Index::object(*f.bucket, "key").key, racer); });
  const auto completed = f.complete(id, f.request(Condition{"old", ""}));
  REQUIRE_FALSE(completed.has_value());
  CHECK(completed.error().code == Errc::precondition);
  CHECK(f.get().value().record.etag == "racer");
  CHECK(f.upload(id).kind() == ValueKind::upload_open);
}

TEST_CASE("A Complete whose attempt was given up by others begins another one") {
  MultipartFixture f;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
  RegisterValue open = *f.upload(id).value;
  f.cluster.settle_down();
  open.op_id = OpId{9, 9};
  before_apply(f, [&] { f.cluster.overwrite(f.upload_ref(id).key, open); });
  const auto completed = f.complete(id, f.request());
  REQUIRE(completed.has_value());
  const auto object = f.get();
  REQUIRE(object.has_value());
  CHECK(object->record.etag == completed->record.etag);
  CHECK(f.upload(id).kind() == ValueKind::upload_done);
}

TEST_CASE("A Complete is refused by the attempt of another only if it asks for the same") {
  struct Row {
    Condition begun;
    Condition asked;
    bool refused;
  };
  const Row rows[] = {{{"", "*"}, {"", "*"}, true},
                      {{"", "*"}, {"", ""}, false},
                      {{"other", ""}, {"other", ""}, true},
                      {{"other", ""}, {"", ""}, false}};
  for (const Row& row : rows) {
    CAPTURE(row.begun.if_match);
    CAPTURE(row.refused);
    MultipartFixture f;
    REQUIRE(f.put("racer").has_value());
    const std::string id = f.create();
    REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
    f.begin(id, row.begun);
    const auto completed = f.complete(id, f.request(row.asked));
    if (row.refused) {
      REQUIRE_FALSE(completed.has_value());
      CHECK(completed.error().code == Errc::precondition);
      CHECK(f.get().value().record.etag == "racer");
    } else {
      REQUIRE(completed.has_value());
      CHECK(f.get().value().record.etag == completed->record.etag);
    }
  }
}

TEST_CASE("A reopening that was left behind is ended by an Abort, and by a Complete") {
  for (const bool abort : {false, true}) {
    CAPTURE(abort);
    MultipartFixture f;
    const std::string id = f.create();
    REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
    const OpId attempt = f.begin(id).attempt;
    REQUIRE(f.cluster
                .run(begin_reopening(f.cluster.gateway->proposer, f.upload_ref(id), attempt,
                                     f.cluster.soon()))
                .value());
    if (abort) {
      CHECK(f.abort(id).has_value());
      CHECK(f.upload(id).kind() == ValueKind::upload_aborted);
      CHECK(f.get().error().code == Errc::not_found);
    } else {
      CHECK(f.complete(id, f.request()).has_value());
      CHECK(f.upload(id).kind() == ValueKind::upload_done);
      CHECK(f.get().has_value());
    }
  }
}

TEST_CASE("What an attempt did not name is hinted by whoever finishes it, and nothing else is") {
  MultipartFixture f;
  const std::string id = f.create_with_unnamed_part();
  f.begin(id);
  REQUIRE(f.complete(id, f.request()).has_value());
  f.cluster.settle_down();
  f.check_unnamed_is_hinted(id);
}

TEST_CASE("An object is as old as its Complete") {
  MultipartFixture f;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
  f.cluster.clock.advance(std::chrono::hours(1));
  const WallTime before = f.cluster.clock.wall();
  const auto completed = f.complete(id, f.request());
  REQUIRE(completed.has_value());
  const WallTime modified = f.get().value().record.modified;
  CHECK(modified >= before);
  CHECK(modified <= f.cluster.clock.wall());
  CHECK(completed->record.modified == modified);
}

TEST_CASE("A fault of a list of parts names the part and its size") {
  MultipartFixture f;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(3, 9, 1)).has_value());
  REQUIRE(f.put_part(id, a_part(4, 8, 2)).has_value());
  const auto small = f.complete(id, f.request());
  REQUIRE(small.has_value());
  CHECK(small->fault == PartFault::too_small);
  CHECK(small->fault_part == 3);
  CHECK(small->fault_bytes == 9);
}

TEST_CASE("An object whose attempt is malformed is not written over, and says that it is corrupt") {
  MultipartFixture f;
  REQUIRE(f.put("old").has_value());
  f.cluster.settle_down();
  ObjectRecord record;
  record.etag = "old";
  record.upload_id = std::string(32, 'a');
  record.attempt = "short";
  RegisterValue broken = to_value(record, 0);
  broken.op_id = OpId{9, 9};
  broken.chain.push_back(OpId{});
  f.cluster.overwrite(Index::object(*f.bucket, "key").key, broken);
  CHECK(f.put("newer").error().code == Errc::corrupt);
  CHECK(f.get().value().op_id == OpId{9, 9});
}

TEST_CASE("A Complete writes into the upload what whoever goes on with it must know") {
  MultipartFixture f;
  REQUIRE(f.put("old").has_value());
  const OpId old = f.get().value().op_id;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
  f.cluster.settle_down();
  std::optional<UploadRecord> seen;
  before_apply(f, [&] {
    const RegisterKey key = f.upload_ref(id).key;
    for (const auto& volume : f.cluster.volumes) {
      const auto row = volume->acceptor.rows.find(key);
      if (row == volume->acceptor.rows.end()) continue;
      const auto value = decode_value(key, *row->second.accepted.value).value();
      if (value.kind == ValueKind::upload_completing) seen = upload_record(value).value();
    }
  });
  const auto completed = f.complete(id, f.request(Condition{"old", ""}));
  REQUIRE(completed.has_value());
  REQUIRE(seen);
  CHECK_FALSE(seen->attempt.is_zero());
  CHECK(seen->object_seen == old);
  CHECK(seen->if_match == "old");
  CHECK(seen->if_none_match.empty());
  CHECK(seen->complete_digest == complete_digest(f.request(Condition{"old", ""})));
  REQUIRE(seen->target);
  CHECK(seen->target->etag == completed->record.etag);
  CHECK(seen->target->parts.size() == 1);
}

TEST_CASE("Parts that the pages of an attempt may name are hinted by nobody who finishes it") {
  MultipartFixture f;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
  UploadRecord record = upload_record(*f.upload(id).value).value();
  record.target = plan_complete(record, f.parts(id), f.request()).target;
  ManifestPage page;
  page.blob = *a_part(9, 100, 9).blob;
  page.entries = 1;
  record.target->manifest.push_back(page);
  record.attempt = f.cluster.gateway->proposer.new_op_id();
  record.complete_digest = complete_digest(f.request());
  REQUIRE(f.cluster
              .run(begin_completing(f.cluster.gateway->proposer, f.upload_ref(id), record, nullptr,
                                    f.cluster.soon()))
              .value());
  REQUIRE(f.complete(id, f.request()).has_value());
  f.cluster.settle_down();
  CHECK(f.get().value().record.manifest.size() == 1);
  CHECK(f.upload(id).kind() == ValueKind::upload_done);
  CHECK(f.cluster.hints_of(f.upload_ref(id).key).empty());
}

TEST_CASE("A Complete that is sent again is answered with the object that the first one made") {
  MultipartFixture f;
  CHECK(f.complete(std::string(32, 'a'), f.request()).error().code == Errc::upload_not_open);
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, limits::kPartBytesMin, 1)).has_value());
  REQUIRE(f.put_part(id, a_part(2, 9, 2)).has_value());
  const auto first = f.complete(id, f.request());
  REQUIRE(first.has_value());
  const auto again = f.complete(id, f.request());
  REQUIRE(again.has_value());
  CHECK(again->record.etag == first->record.etag);
  CHECK(again->record.size_bytes == first->record.size_bytes);
  CHECK(again->record.part_count == 2);
  CHECK(again->record.modified == first->record.modified);
  CHECK(again->record.headers == first->record.headers);
}

TEST_CASE("A Complete that asks for something else is not answered with what the first one made") {
  MultipartFixture f;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
  const CompleteRequest first = f.request();
  REQUIRE(f.complete(id, first).has_value());
  const std::vector<std::function<void(CompleteRequest&)>> changes = {
      [](auto& request) { request.condition.if_match = "dead"; },
      [](auto& request) { request.condition.if_none_match = "*"; },
      [](auto& request) { request.object_size = 5; },
      [](auto& request) {
        request.checksum = {ChecksumAlgorithm::crc32, {}, "abcd"};
      },
      [](auto& request) { request.checksum_type = ChecksumType::composite; },
      [](auto& request) { request.parts[0].checksum.algorithm = ChecksumAlgorithm::sha1; },
      [](auto& request) {
        request.parts.push_back({2, "00", {}});
      },
  };
  for (const auto& change : changes) {
    CompleteRequest other = first;
    change(other);
    const auto again = f.complete(id, other);
    REQUIRE(!again.has_value());
    CHECK(again.error().code == Errc::upload_not_open);
  }
  CHECK(f.complete(id, first).has_value());
}

}  // namespace penstock
