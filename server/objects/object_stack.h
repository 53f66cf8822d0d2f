// What works across volumes, wired: membership, registers, index, bodies, objects. Whoever serves
// objects owns one, and whoever looks after them beside requests shares it or has its own.
//
// Ownership: owns all its parts, which are valid as long as it is.
// Order of destruction: before the clock, memory and I/O threads that it borrows; when none of its
// coroutines runs any more.
// Thread-safety: the parts as they say; probes by one thread.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/metrics.h"
#include "server/membership/membership.h"
#include "server/objects/multipart.h"
#include "server/objects/objects.h"
#include "server/proposer/proposer.h"

namespace penstock {

struct ObjectStackParts {
  std::shared_ptr<const ClusterMap> map;
  // As Membership wants them: the volumes that can be reached, and those of newer maps.
  std::vector<std::shared_ptr<VolumeClient>> volumes;
  Membership::Connector connect;
  // Borrowed.
  Clock& clock;
  Random& random;
  BufferPool& buffers;
  MemoryBudget& budget;
  CodecCache& codecs;
  // What volumes grant, too: the lease of a fragment that no record names yet, and how long readers
  // may use what an update freed.
  Duration lease;
  Duration hint_delay;
  // As BlobOptions wants it; empty: no volume is reached by a connection.
  std::function<std::uint64_t()> connection_changes{};
};

class ObjectStack {
 public:
  // Errors: invalid - no ring can be built of the map.
  static Result<std::unique_ptr<ObjectStack>> make(ObjectStackParts parts);

  Membership& membership() { return membership_; }
  Proposer& proposer() { return proposer_; }
  Index& index() { return index_; }
  Blobs& blobs() { return blobs_; }
  Objects& objects() { return objects_; }
  Multipart& multipart() { return multipart_; }
  Clock& clock() { return clock_; }

  // Suspects are asked again once a second though nobody needs them, on this context, until
  // end_probes(): a moment later, or cut off with the context.
  void begin_probes(boost::asio::io_context& io);
  void end_probes() { probes_end_.store(true); }
  // Until no register call is under way. Call it before the volumes go.
  Awaitable<void> drain() { return proposer_.drain(); }

  void add_collectors(Metrics& metrics) const;

 private:
  ObjectStack(ObjectStackParts parts, Ring ring);
  Awaitable<void> probe(Executor executor);

  Clock& clock_;
  // Each uses those above it.
  Membership membership_;
  Proposer proposer_;
  Index index_;
  Blobs blobs_;
  Objects objects_;
  Multipart multipart_;
  std::atomic<bool> probes_end_{false};
};

}  // namespace penstock
