// A cluster of fake volumes with one object in it, and the context that background jobs run in.
#pragma once
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/log.h"
#include "server/background/removal/background_context.h"
#include "tests/fake/fake_cluster.h"
#include "tests/fake/write_text.h"

namespace penstock {

class BackgroundWorld {
 public:
  // `partitions`: of its bucket; 0: as the map gives to new ones.
  explicit BackgroundWorld(std::uint32_t partitions = 0) {
    set_log_sink([](LogLevel, std::string_view) {});
    for (const auto& volume : cluster.volumes) context.local.push_back(volume->id());
    context.options.steps_per_second = 1'000'000;
    bucket = cluster.make_bucket("bucket", partitions);
  }

  // A durable blob that no record names.
  BlobRef write(const std::string& key = "key", const std::string& upload_id = "") {
    std::unique_ptr<BlobWriter> writer;
    auto blob = cluster.run(write_blob(Index::owner(*bucket, key, upload_id), &writer));
    cluster.settle_down();
    return blob.value();
  }
  static ObjectRecord record_of(const BlobRef& blob) {
    ObjectRecord record;
    record.size_bytes = blob.shape.size_bytes;
    record.etag = "00000000000000000000000000000000";
    PartInfo part;
    part.size_bytes = record.size_bytes;
    part.blob = blob;
    record.parts.push_back(part);
    return record;
  }
  BlobRef put(const std::string& key = "key") {
    const BlobRef blob = write(key);
    name(blob, key);
    return blob;
  }
  void name(const BlobRef& blob, const std::string& key = "key") {
    auto stored = cluster.run(
        objects().put(*bucket, key, record_of(blob), nullptr, Condition{}, cluster.soon()));
    REQUIRE(stored.has_value());
    cluster.settle_down();
  }
  void remove(const std::string& key = "key") {
    REQUIRE(cluster.run(objects().remove(*bucket, key, Condition{}, cluster.soon())).has_value());
    cluster.settle_down();
  }

  Objects& objects() { return cluster.gateway->objects; }
  Multipart& multipart() { return cluster.gateway->multipart; }
  FakeVolume& volume(VolumeId id) { return cluster.volume(id); }
  std::size_t held(const BlobRef& blob) { return cluster.held(blob); }
  std::size_t hints() {
    std::size_t count = 0;
    for (const auto& volume : cluster.volumes) count += volume->acceptor.stored_hints.size();
    return count;
  }
  void unpin(const BlobRef& blob) {
    for (std::uint32_t slot = 0; slot < blob.locations.size(); ++slot) {
      volume(blob.locations[slot].volume).fragments.unpinned.insert(blob.fragment(slot));
    }
  }
  // The volumes of the key's group, in order.
  std::vector<VolumeId> replicas(const std::string& key = "key") {
    const BucketRecord& record = bucket->record;
    const auto share = group_of_key(*cluster.map, record.id, record.partitions, key);
    return replicas_of(*cluster.map, share.group)->volumes;
  }
  template <class Job>
  bool pass(Job& job) {
    const bool whole = cluster.run(job.pass()).has_value();
    cluster.settle_down();
    return whole;
  }

  FakeCluster cluster;
  std::shared_ptr<const Bucket> bucket;
  BackgroundContext context{cluster.gateway->membership,
                            cluster.gateway->proposer,
                            cluster.gateway->index,
                            cluster.gateway->blobs,
                            cluster.gateway->objects,
                            cluster.clock,
                            {},
                            {}};

 private:
  Task<BlobRef> write_blob(FragmentOwner owner, std::unique_ptr<BlobWriter>* keep) {
    constexpr std::size_t kBytes = 200'000;
    CO_TRY(writer, co_await cluster.gateway->blobs.write(std::move(owner), kBytes, cluster.soon()));
    *keep = std::move(writer);
    const std::string text(kBytes, 'x');
    CO_CHECK(co_await write_text(**keep, text));
    co_return co_await (*keep)->commit(cluster.soon());
  }
};

}  // namespace penstock
