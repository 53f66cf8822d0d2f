// One process of a world in which a volume is replaced: a client's way to the volumes, and the
// driver of the replacement if it is started.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/checksum.h"
#include "penstock/md5.h"
#include "server/background/replacement/volume_replacement.h"
#include "server/objects/multipart.h"
#include "server/objects/objects.h"
#include "tests/fake/write_text.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_time.h"

namespace penstock::sim {

struct ReplacementProcess {
  using Connect = std::function<std::shared_ptr<VolumeClient>(VolumeId)>;

  ReplacementProcess(SimTime& time, std::uint64_t seed, std::shared_ptr<const ClusterMap> map,
                     const Connect& connect, const ReplacementOptions& options)
      : random(seed),
        clock(time, random.between(-500'000, 500'000), 1.0),
        membership(map, Ring::build(*map).value(), clients_of(*map, connect), clock,
                   [connect](const MapVolume& volume) { return connect(volume.id); }),
        proposer(membership, clock, random),
        index(membership, proposer, clock, random),
        buffers(limits::kMiB),
        budget(256 * limits::kMiB),
        blobs(membership, clock, random, buffers, budget, codecs),
        objects(proposer, blobs, clock),
        multipart(index, proposer, blobs, random, clock),
        driver(ReplacementParts{membership, proposer, blobs, clock, options, nullptr}) {}

  static std::vector<std::shared_ptr<VolumeClient>> clients_of(const ClusterMap& map,
                                                               const Connect& connect) {
    std::vector<std::shared_ptr<VolumeClient>> clients;
    for (const auto& volume : map.volumes) clients.push_back(connect(volume.id));
    return clients;
  }

  // A durable blob, as a part of an object; `writer` keeps its leases.
  Task<PartInfo> write(FragmentOwner owner, std::string text, std::unique_ptr<BlobWriter>& writer,
                       Deadline deadline) {
    CO_TRY(opened, co_await blobs.write(std::move(owner), text.size(), deadline));
    writer = std::move(opened);
    CO_CHECK(co_await write_text(*writer, text));
    PartInfo part;
    part.size_bytes = text.size();
    part.md5 = md5(as_bytes(text));
    CO_TRY(blob, co_await writer->commit(deadline));
    part.blob = std::move(blob);
    co_return part;
  }

  SimRandom random;
  SimClock clock;
  Membership membership;
  Proposer proposer;
  Index index;
  BufferPool buffers;
  MemoryBudget budget;
  CodecCache codecs;
  Blobs blobs;
  Objects objects;
  Multipart multipart;
  VolumeReplacement driver;
};

}  // namespace penstock::sim
