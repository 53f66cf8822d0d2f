// Six whole volumes in memory and what a gateway has above them, under one seed and one clock.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/objects/multipart.h"
#include "server/objects/objects.h"
#include "tests/fake/fake_volume.h"
#include "tests/fake/seeded_random.h"

namespace penstock {

// One gateway: its own proposer, index and cache over the shared volumes.
struct FakeGateway {
  FakeGateway(const std::shared_ptr<const ClusterMap>& map,
              const std::vector<std::shared_ptr<FakeVolume>>& volumes, FakeClock& clock,
              Random& random);
  Membership membership;
  Proposer proposer;
  BufferPool buffers;
  MemoryBudget budget;
  CodecCache codecs;
  Blobs blobs;
  Index index;
  Objects objects;
  Multipart multipart;
};

class FakeCluster {
 public:
  static constexpr std::size_t kVolumes = 6;
  explicit FakeCluster(std::uint64_t seed = 1, std::uint32_t groups = 4);
  ~FakeCluster();

  boost::asio::io_context io;
  FakeClock clock;
  SeededRandom random;
  std::shared_ptr<const ClusterMap> map;
  std::vector<std::shared_ptr<FakeVolume>> volumes;
  std::vector<std::unique_ptr<FakeGateway>> gateways;
  FakeGateway* gateway;  // the first of them

  // Lives as long as the cluster: what it left under way goes on behind its answers.
  FakeGateway& another_gateway() {
    return *gateways.emplace_back(std::make_unique<FakeGateway>(map, volumes, clock, random));
  }
  // Pre: there is one.
  FakeVolume& volume(VolumeId id);
  // How many fragments of the blob are where it says.
  std::size_t held(const BlobRef& blob);
  // A volume as it is after its format.
  FakeVolume& add_volume(VolumeId id);
  template <class T>
  Result<T> run(Task<T> task) {
    return run_task(io, clock, std::move(task));
  }
  // Runs what is still under way.
  void settle_down() { run_all(io, clock); }
  Deadline soon() const { return clock.boot() + Duration(limits::kOperationDeadline); }

  std::shared_ptr<const Bucket> make_bucket(const std::string& name, std::uint32_t partitions = 0);
  // What every replica of the register holds from now on, as if another process had written it.
  void overwrite(const RegisterKey& key, const RegisterValue& value);
  void move_bucket(const Bucket& bucket, BucketState state, BucketNumber number);
  // All hints stored beside the register, by any replica.
  std::vector<Hint> hints_of(const RegisterKey& key) const;
};

}  // namespace penstock
