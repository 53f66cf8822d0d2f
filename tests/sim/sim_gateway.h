// One process of the simulated world that serves S3: the product's own membership, proposer, index
// and operations over SimLinks; and the background work for the volumes given to it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/operations/operations.h"
#include "server/background/background.h"
#include "server/background/replacement/volume_replacement.h"
#include "server/objects/objects.h"
#include "tests/sim/sim_body.h"
#include "tests/sim/sim_clusters.h"
#include "tests/sim/sim_network.h"

namespace penstock::sim {

// What a process has of its own. Its clock goes on when it is started anew.
struct SimHost {
  SimHost(SimTime& time, std::uint64_t seed);
  SimRandom random;
  const std::shared_ptr<SimClock> clock;
  BufferPool buffers;
};

// How one begins.
struct SimGatewayParts {
  // The way to a volume that a newer map names; null: there is none.
  using Connect =
      std::function<std::shared_ptr<VolumeClient>(const MapVolume&, std::shared_ptr<Wire>)>;
  std::shared_ptr<SimHost> host;
  std::vector<std::shared_ptr<VolumeClient>> links;
  std::vector<std::shared_ptr<Wire>> wires;  // of the links; none where they are connections
  Connect connect;
  std::vector<VolumeId> local;  // whose background work it does; none named: all of the map
  bool background = true;
  bool serves_clients = true;
  std::uint32_t page_rows = RemovalOptions().page_rows;
  std::function<void()> on_kill;  // cuts it off from the others; may be empty
  // Of its connections, as BlobOptions wants it; empty: what the hosts of the wires say.
  std::function<std::uint64_t()> connection_changes{};
  // Of its clock's process, as ReplacementParts has it; empty: there is no source.
  using ToSource =
      std::function<Task<>(std::shared_ptr<SimClock>, std::shared_ptr<const ClusterMap>)>;
  ToSource to_source{};
};

class SimGateway {
 public:
  SimGateway(SimTime& time, const SimCluster& cluster, SimGatewayParts parts);
  ~SimGateway();

  // Runs one S3 request as the HTTP side would. The answer carries its whole body as text.
  struct Answer {
    int status = 0;
    std::uint64_t length = 0;  // Content-Length
    std::string body;          // of an error: its code and message
    std::vector<std::pair<std::string, std::string>> headers;
    std::string header(std::string_view name) const;
    bool is(std::string_view code) const { return status >= 400 && body.starts_with(code); }
  };
  // `pause`: see drain_body(). Errors: aborted - the process died meanwhile; as BodySource::next.
  Task<Answer> call(S3Request request, std::string body, BodyPause pause = nullptr);

  SimClock& clock() { return *parts_.host->clock; }
  SimRandom& random() { return parts_.host->random; }
  MemoryBudget& budget() { return budget_; }
  Membership& membership() { return membership_; }
  Proposer& proposer() { return proposer_; }
  Index& index() { return index_; }
  Blobs& blobs() { return blobs_; }
  // What operations share.
  Gateway& operations() { return gateway_; }
  BackgroundContext& background_context() { return context_; }
  BackgroundWork& background() { return background_; }
  // Runs in one gateway at a time, once that has started it.
  VolumeReplacement& replacement() { return replacement_; }
  // Whose background work it does.
  const std::vector<VolumeId>& local() const { return context_.local; }
  // The process dies: nothing it sends arrives any more, nothing reaches it.
  void kill();
  bool alive() const { return alive_; }
  // Clients ask it; others work for their own volumes alone.
  bool serves_clients() const { return parts_.serves_clients; }
  const std::vector<std::shared_ptr<Wire>>& wires() const { return parts_.wires; }
  // A way of its own to a volume; null: there is none.
  std::shared_ptr<VolumeClient> connect(const MapVolume& volume);

 private:
  std::uint64_t connection_changes() const;
  ReplacementParts replacement_parts();
  SimGatewayParts parts_;
  const std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);  // its process
  Membership membership_;
  Proposer proposer_;
  Index index_;
  MemoryBudget budget_;
  CodecCache codecs_;
  Blobs blobs_;
  Objects objects_;
  Multipart multipart_;
  Gateway gateway_;
  BackgroundContext context_;
  BackgroundWork background_;
  VolumeReplacement replacement_;
  bool alive_ = true;
};

}  // namespace penstock::sim
