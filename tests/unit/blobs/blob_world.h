// What the tests of blobs stand on: fake volumes, fake time, and bodies whose bytes tell their
// place.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/log.h"
#include "server/blobs/blob_hedge.h"
#include "server/blobs/blobs.h"
#include "tests/fake/fake_clock.h"
#include "tests/fake/fake_holder.h"
#include "tests/fake/seeded_random.h"

namespace penstock {

struct BlobWorldShape {
  std::uint32_t volumes = 6;
  std::uint32_t k = 4;
  std::uint32_t m = 2;
  std::uint64_t unit_bytes = 64 << 10;
  std::uint64_t replicated_bytes_max = 0;
  std::uint32_t hosts = 1;
  bool memory_floors = false;  // each kind of use has memory for itself, as in a process
};

class BlobWorld {
 public:
  static constexpr std::size_t kMemory = 64 << 20;
  FragmentOwner owner{BucketId{9}, 1, "key", ""};
  explicit BlobWorld(BlobWorldShape shape = {}, std::uint64_t seed = 1)
      : random(seed),
        budget(kMemory,
               shape.memory_floors ? MemoryBudget::floors_of(kMemory) : MemoryBudget::Floors{}),
        buffers(8 << 20) {
    set_log_sink([](LogLevel, std::string_view) {});
    std::vector<MapVolume> list;
    std::vector<std::shared_ptr<VolumeClient>> clients;
    for (std::uint32_t i = 0; i < shape.volumes; ++i) {
      MapVolume volume;
      volume.id = VolumeId{100 + i};
      volume.name = "v" + std::to_string(i);
      volume.host = "h" + std::to_string(i % shape.hosts);
      list.push_back(volume);
      volumes.push_back(std::make_shared<FakeHolder>(volume.id));
      clients.push_back(volumes.back());
    }
    auto map = std::make_shared<ClusterMap>();
    map->epoch = Epoch{1};
    map->volumes = list;
    map->policy.k = shape.k;
    map->policy.m = shape.m;
    map->policy.unit_bytes = shape.unit_bytes;
    map->policy.replicated_bytes_max = shape.replicated_bytes_max;
    membership = std::make_unique<Membership>(map, Ring::build(*map).value(), clients, clock);
    BlobOptions options;
    options.connection_changes = [this] { return connection_changes; };
    blobs = std::make_unique<Blobs>(*membership, clock, random, buffers, budget, codecs,
                                    std::move(options));
  }

  Deadline deadline() const { return clock.boot() + std::chrono::seconds(30); }
  FakeHolder& at(VolumeId id) { return *volumes[id.value - 100]; }
  FakeHolder& slot(const BlobRef& blob, std::uint32_t index) {
    return at(blob.locations[index].volume);
  }
  // On all volumes.
  std::size_t fragments() const {
    std::size_t count = 0;
    for (const auto& volume : volumes) count += volume->fragment_count();
    return count;
  }
  static std::size_t zero_locations(const BlobRef& blob) {
    return static_cast<std::size_t>(
        std::count(blob.locations.begin(), blob.locations.end(), Location{}));
  }
  void set_cached(bool cached) {
    for (auto& volume : volumes) volume->faults.cached = cached;
  }

  // A body whose bytes depend on their place and on `seed`.
  static std::string body(std::size_t size, std::uint64_t seed = 7) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) {
      text[i] = static_cast<char>(mix_hash(seed + i / 8) >> i % 8 * 8);
    }
    return text;
  }

  // Writes `text` in steps of at most `step` bytes. `before` runs ahead of each step.
  Task<BlobRef> write(std::string text, std::size_t step = 100'000,
                      std::function<void(std::size_t)> before = nullptr, bool replicated = false) {
    if (replicated) {
      const Deadline until = deadline();
      CO_TRY(opened, co_await blobs->write_replicated(owner, text.size(), until));
      writer = std::move(opened);
    } else {
      CO_TRY(opened, co_await blobs->write(owner, text.size(), deadline()));
      writer = std::move(opened);
    }
    for (std::size_t at = 0; at < text.size();) {
      if (before) before(at);
      CO_TRY(space, co_await writer->space());
      const std::size_t count = std::min({space.size(), step, text.size() - at});
      std::memcpy(space.data(), text.data() + at, count);
      CO_CHECK(co_await writer->filled(count));
      at += count;
    }
    CO_TRY(blob, co_await writer->commit(deadline()));
    co_return blob;
  }
  Result<BlobRef> put(const std::string& text, std::size_t step = 100'000,
                      std::function<void(std::size_t)> before = nullptr) {
    auto blob = run_task(io, clock, write(text, step, std::move(before)));
    writer.reset();
    return blob;
  }

  Task<std::string> read(std::vector<BlobRange> ranges) {
    BlobReader::Damaged note = [this](const BlobRef&, std::uint32_t slot_index, const Error& why) {
      damaged.emplace_back(slot_index, why.code);
    };
    BlobReader reader = blobs->read(std::move(ranges), false, std::move(note));
    std::string text;
    while (true) {
      CO_TRY(piece, co_await reader.next(deadline()));
      if (piece.length == 0) co_return text;
      ++pieces;
      text.append(as_text(piece.bytes()));
    }
  }
  Result<std::string> get(const BlobRef& blob, std::uint64_t offset, std::uint64_t length) {
    std::vector<BlobRange> ranges(1);
    ranges[0].blob = blob;
    ranges[0].offset = offset;
    ranges[0].length = length;
    return run_task(io, clock, read(std::move(ranges)));
  }
  Result<std::string> get(const BlobRef& blob) { return get(blob, 0, blob.shape.size_bytes); }

  // All that hangs answers, all that runs ends.
  void settle() {
    writer.reset();
    for (auto& volume : volumes) volume->release();
    run_all(io, clock);
  }
  ~BlobWorld() {
    settle();
    set_log_sink(nullptr);
  }

  boost::asio::io_context io{1};
  FakeClock clock;
  SeededRandom random;
  MemoryBudget budget;
  BufferPool buffers;
  CodecCache codecs;
  std::vector<std::shared_ptr<FakeHolder>> volumes;
  std::unique_ptr<Membership> membership;
  std::unique_ptr<Blobs> blobs;
  std::unique_ptr<BlobWriter> writer;
  std::vector<std::pair<std::uint32_t, Errc>> damaged;
  int pieces = 0;
  std::uint64_t connection_changes = 0;
};

}  // namespace penstock
