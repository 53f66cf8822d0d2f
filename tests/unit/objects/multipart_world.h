// Uploads of one key over six whole volumes in memory: what a gateway asks for, and the steps of a
// Complete one by one.
#pragma once
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/text_codec.h"
#include "server/objects/multipart.h"
#include "server/objects/upload_moves.h"
#include "tests/fake/fake_cluster.h"

namespace penstock {

inline PartInfo a_part(std::uint16_t number, std::uint64_t size_bytes, std::uint8_t seed) {
  PartInfo made;
  made.number = number;
  made.size_bytes = size_bytes;
  made.md5.fill(seed);
  BlobRef blob;
  blob.write_id = WriteId{number, seed};
  blob.shape = BlobShape{1, 2, 1 << 20, size_bytes};
  blob.locations.assign(3, Location{VolumeId{1}, Generation{seed}});
  made.blob = blob;
  return made;
}

struct MultipartFixture {
  FakeCluster cluster;
  std::shared_ptr<const Bucket> bucket = cluster.make_bucket("b");
  Objects& objects = cluster.gateway->objects;
  Multipart& multipart = cluster.gateway->multipart;
  std::vector<PartInfo> stored;

  std::string create() {
    UploadRecord record;
    record.owner = "me";
    record.initiated = cluster.clock.wall();
    record.headers["content-type"] = "text/plain";
    return cluster.run(multipart.create(*bucket, "key", record, cluster.soon())).value();
  }
  Result<> put_part(const std::string& id, PartInfo info) {
    auto put = cluster.run(multipart.put_part(*bucket, "key", id, info, cluster.soon()));
    if (put) stored.push_back(std::move(info));
    return put;
  }
  CompleteRequest request(Condition condition = {}) const {
    CompleteRequest made;
    made.condition = std::move(condition);
    for (const PartInfo& each : stored) {
      CompletePart named;
      named.number = each.number;
      named.etag = hex_encode(std::as_bytes(std::span(each.md5)));
      made.parts.push_back(std::move(named));
    }
    return made;
  }
  // A new upload of two parts, 1 and 5, of which request() will name the first only.
  std::string create_with_unnamed_part() {
    const std::string id = create();
    REQUIRE(put_part(id, a_part(1, 9, 1)).has_value());
    REQUIRE(put_part(id, a_part(5, 9, 5)).has_value());
    stored.pop_back();
    return id;
  }
  // The upload's register hints the part that was not named, and nothing else.
  void check_unnamed_is_hinted(const std::string& id) const {
    const auto hints = cluster.hints_of(upload_ref(id).key);
    REQUIRE(hints.size() == 1);
    CHECK(hints[0].write_id == WriteId{5, 5});
    CHECK(hints[0].upload_id == id);
  }
  Result<Multipart::Answer> complete(const std::string& id, CompleteRequest made) {
    return cluster.run(multipart.complete(*bucket, "key", id, std::move(made), cluster.soon()));
  }
  Result<> abort(const std::string& id) {
    return cluster.run(multipart.abort(*bucket, "key", id, cluster.soon()));
  }
  Result<ObjectRead> get() {
    return cluster.run(objects.get(*bucket, "key", false, cluster.soon()));
  }
  Result<ObjectRecord> put(const std::string& etag) {
    ObjectRecord record;
    record.etag = etag;
    return cluster.run(objects.put(*bucket, "key", record, nullptr, Condition{}, cluster.soon()));
  }
  RegisterRef upload_ref(const std::string& id) const { return Index::upload(*bucket, "key", id); }
  Snapshot upload(const std::string& id) {
    return cluster
        .run(cluster.gateway->proposer.read(upload_ref(id), ReadWant::value, cluster.soon()))
        .value();
  }
  std::vector<PartInfo> parts(const std::string& id) {
    return cluster.run(cluster.gateway->index.list_parts(bucket, "key", id, cluster.soon()))
        .value();
  }
  // Leaves the upload completing, as a gateway does that dies after its first step.
  UploadRecord begin(const std::string& id, Condition condition = {}) {
    UploadRecord record = upload_record(*upload(id).value).value();
    const CompletePlan plan = plan_complete(record, parts(id), request());
    record.attempt = cluster.gateway->proposer.new_op_id();
    record.target = plan.target;
    record.target->parts = plan.parts;
    record.if_match = condition.if_match;
    record.if_none_match = condition.if_none_match;
    record.complete_digest = complete_digest(request(condition));
    auto begun = cluster.run(begin_completing(cluster.gateway->proposer, upload_ref(id), record,
                                              nullptr, cluster.soon()));
    REQUIRE(begun.value());
    return record;
  }
  UploadName name(const std::string& id) const { return UploadName{bucket, "key", id}; }
  ApplyContext context() {
    return ApplyContext{cluster.gateway->index, cluster.gateway->proposer, cluster.clock};
  }
  // Writes the object of an attempt and leaves the upload completing.
  void apply_object_only(const std::string& id) {
    for (auto& volume : cluster.volumes) {
      volume->acceptor.fate = [](VolumeId, RegisterCall call, const RegisterKey& key) {
        Fate fate;
        fate.lose_request = call == RegisterCall::accept && key.kind == RowKind::upload;
        return fate;
      };
    }
    const UploadRecord record = upload_record(*upload(id).value).value();
    auto end = cluster.run(apply_attempt(context(), name(id), record.attempt, nullptr,
                                         cluster.clock.boot() + std::chrono::seconds(2)));
    CHECK_FALSE(end.has_value());
    for (auto& volume : cluster.volumes) volume->acceptor.fate = nullptr;
    CHECK(upload(id).kind() == ValueKind::upload_completing);
  }
};

}  // namespace penstock
