#include "server/objects/object_stack.h"

#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "penstock/caught.h"

namespace penstock {
namespace {

BlobOptions graces_of(const ObjectStackParts& parts) {
  BlobOptions graces;
  graces.lease_fresh = parts.lease / 2;
  graces.reader_pin_every = parts.hint_delay / 3;
  graces.connection_changes = parts.connection_changes;
  return graces;
}

}  // namespace

Result<std::unique_ptr<ObjectStack>> ObjectStack::make(ObjectStackParts parts) {
  TRY(ring, Ring::build(*parts.map));
  return std::unique_ptr<ObjectStack>(new ObjectStack(std::move(parts), std::move(ring)));
}

ObjectStack::ObjectStack(ObjectStackParts parts, Ring ring)
    : clock_(parts.clock),
      membership_(std::move(parts.map), std::move(ring), std::move(parts.volumes), parts.clock,
                  std::move(parts.connect)),
      proposer_(membership_, parts.clock, parts.random),
      index_(membership_, proposer_, parts.clock, parts.random),
      blobs_(membership_, parts.clock, parts.random, parts.buffers, parts.budget, parts.codecs,
             graces_of(parts)),
      objects_(proposer_, blobs_, parts.clock, parts.hint_delay),
      multipart_(index_, proposer_, blobs_, parts.random, parts.clock, parts.hint_delay,
                 &parts.budget) {}

void ObjectStack::begin_probes(boost::asio::io_context& io) {
  boost::asio::co_spawn(io, probe(io.get_executor()), ReportThrown{"the end of the probes"});
}

Awaitable<void> ObjectStack::probe(Executor executor) {
  while (!probes_end_.load()) {
    try {
      membership_.probe_suspects(executor);
    } catch (...) {  // the next round probes again
      report_exception("the probes of suspects");
    }
    const BootTime next = next_whole(clock_.boot(), limits::kProbeEvery);
    co_await clock_.sleep_until(next);
  }
}

void ObjectStack::add_collectors(Metrics& metrics) const {
  const auto stragglers = [this] {
    const Metrics::Sample sample{{}, static_cast<double>(proposer_.stragglers())};
    return std::vector<Metrics::Sample>{sample};
  };
  metrics.add_collector(Metrics::Kind::gauge, "penstock_register_stragglers",
                        "Accepts under way past their majority.", stragglers);
}

}  // namespace penstock
