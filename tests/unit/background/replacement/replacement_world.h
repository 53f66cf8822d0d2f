// Six volumes with objects of every form, and the replacement of one of them that a test steps
// through.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "penstock/log.h"
#include "server/background/replacement/volume_replacement.h"
#include "server/blobs/manifest.h"
#include "server/objects/multipart_apply.h"
#include "server/objects/upload_moves.h"
#include "tests/fake/fake_cluster.h"
#include "tests/fake/write_text.h"

namespace penstock {

inline const VolumeId kNew{77};

inline MapVolume newcomer() {
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
      cluster.volumes.clear();
      for (const MapVolume& volume : cluster.map->volumes) cluster.add_volume(volume.id);
      cluster.gateway = &cluster.another_gateway();
    }
    bucket = cluster.make_bucket("bucket");
    cluster.add_volume(kNew);
  }
  ~ReplacementWorld() { end(); }

  FakeGateway& gateway() { return *cluster.gateway; }
  FakeVolume& volume(VolumeId id) { return cluster.volume(id); }
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
  // An object of `count` equal parts, which stand in a manifest.
  void put_in_parts(const std::string& key, std::size_t count, std::size_t part_bytes) {
    sizes[key] = count * part_bytes;
    REQUIRE(cluster.run(store_parts(key, count, part_bytes)));
    cluster.settle_down();
  }
  struct Upload {
    UploadName name;
    PartInfo part;  // its only one, as it was put
    OpId attempt;
  };
  Upload open_upload(const std::string& key, std::size_t size) {
    Upload upload;
    upload.name = {bucket, key, ""};
    upload.name.upload_id =
        cluster.run(gateway().multipart.create(*bucket, key, UploadRecord{}, cluster.soon()))
            .value();
    const std::string& id = upload.name.upload_id;
    std::unique_ptr<BlobWriter> writer;
    upload.part =
        cluster.run(write(Index::owner(*bucket, key, id), bytes_of(key, size), &writer)).value();
    REQUIRE(
        cluster.run(gateway().multipart.put_part(*bucket, key, id, upload.part, cluster.soon())));
    cluster.settle_down();
    return upload;
  }
  bool part_is_on(const Upload& upload, VolumeId id) {
    const RegisterKey key = Index::part(*bucket, upload.name.key, upload.name.upload_id, 1).key;
    for (const auto& each : cluster.volumes) {
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
    const auto end =
        cluster.run(apply_attempt(context, upload.name, upload.attempt, nullptr, cluster.soon()));
    REQUIRE(end.value().how == AttemptEnd::How::applied);
    sizes[upload.name.key] = upload.part.size_bytes;
  }
  std::string get(const std::string& key) {
    auto read = cluster.run(gateway().objects.get(*bucket, key, true, cluster.soon()));
    if (!read) return "error: " + read.error().context;
    if (read->inline_bytes) return *read->inline_bytes;
    std::string text;
    const auto parts = cluster.run(gateway().objects.parts(read->record, cluster.soon()));
    if (!parts) return "error: " + parts.error().context;
    for (const PartInfo& part : *parts) {
      auto bytes = cluster.run(gateway().blobs.read_whole(*part.blob, cluster.soon()));
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
      for (const BlobRef& blob : blobs_of(key)) {
        for (const Location& location : blob.locations) {
          if (location.volume == id) return true;
        }
      }
    }
    return false;
  }
  // Of all its parts, and of the pages of its manifest.
  std::vector<BlobRef> blobs_of(const std::string& key) {
    auto read = cluster.run(gateway().objects.get(*bucket, key, false, cluster.soon()));
    REQUIRE(read);
    auto parts = cluster.run(gateway().objects.parts(read->record, cluster.soon()));
    REQUIRE(parts);
    std::vector<BlobRef> blobs;
    for (const ManifestPage& page : read->record.manifest) blobs.push_back(page.blob);
    for (const PartInfo& part : *parts) {
      if (part.blob) blobs.push_back(*part.blob);
    }
    return blobs;
  }

  VolumeReplacement& replacement() {
    if (!running) {
      ReplacementParts parts{gateway().membership,
                             gateway().proposer,
                             gateway().blobs,
                             cluster.clock,
                             {},
                             nullptr,
                             to_source};
      running = std::make_unique<VolumeReplacement>(std::move(parts));
      running->start(cluster.io.get_executor());
    }
    return *running;
  }
  Result<> begin(VolumeId old) {
    auto client = std::static_pointer_cast<VolumeClient>(cluster.volumes.back());
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
  std::function<Task<>(std::shared_ptr<const ClusterMap>)> to_source;  // of the next driver
  std::unique_ptr<VolumeReplacement> running;
  std::map<std::string, std::uint64_t> most_done;  // by what the status said it did

 private:
  Task<PartInfo> write(FragmentOwner owner, std::string text, std::unique_ptr<BlobWriter>* keep) {
    CO_TRY(writer, co_await gateway().blobs.write(std::move(owner), text.size(), cluster.soon()));
    *keep = std::move(writer);
    CO_CHECK(co_await write_text(**keep, text));
    PartInfo part;
    part.number = 1;
    part.size_bytes = text.size();
    CO_TRY(blob, co_await (*keep)->commit(cluster.soon()));
    part.blob = std::move(blob);
    co_return part;
  }
  Task<> store_parts(std::string key, std::size_t count, std::size_t part_bytes) {
    const FragmentOwner owner = Index::owner(*bucket, key);
    const std::string text = bytes_of(key, count * part_bytes);
    std::vector<std::unique_ptr<BlobWriter>> writers(count);
    std::vector<PartInfo> parts;
    for (std::size_t i = 0; i < count; ++i) {
      std::string bytes = text.substr(i * part_bytes, part_bytes);
      CO_TRY(part, co_await write(owner, std::move(bytes), &writers[i]));
      part.number = static_cast<std::uint16_t>(i + 1);
      parts.push_back(std::move(part));
    }
    ManifestWriter pages(gateway().blobs, owner);
    ObjectRecord record;
    record.size_bytes = text.size();
    record.etag = std::string(32, '0');
    CO_TRY(manifest, co_await pages.write(parts, cluster.soon()));
    record.manifest = std::move(manifest);
    Condition condition;
    CO_CHECK(co_await gateway().objects.put(*bucket, key, std::move(record), nullptr, condition,
                                            cluster.soon(), &pages));
    co_return Result<>{};
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

inline void fill(ReplacementWorld& world) {
  world.put("inline", 100);
  world.put("replicated", 50'000);
  world.put("striped", 300'000);
  world.put("long", 9'000'000);
}

inline VolumeId first_volume() { return VolumeId{1}; }

// 4+2 over three hosts with three volumes each.
inline std::shared_ptr<const ClusterMap> three_hosts() {
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

}  // namespace penstock
