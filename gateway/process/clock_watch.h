// Asks the servers for their time once in a while, and tells by how much clocks are off: nothing is
// lost by that (server/proposer/README.md), but dates, ages and ballots go by them.
// Thread-safety: start() and stop() as said; report() from any thread.
#pragma once
#include <memory>
#include <string>

#include "gateway/clock_offsets.h"
#include "penstock/async.h"
#include "penstock/metrics.h"
#include "penstock/runtime.h"
#include "server/transport/remote_servers.h"

namespace penstock {

class ClockWatch {
 public:
  // `is_server`: as judge_clocks() wants it. Ownership: borrows both, which outlive its end.
  ClockWatch(const RemoteServers& servers, Clock& clock, bool is_server);
  ~ClockWatch();  // stop()

  // Once; `executor` is of a context of the servers' links. It ends soon after stop(), which any
  // thread may call.
  void start(Executor executor);
  void stop();
  ClockReport report() const;

  // Before the first text(). Pre: this object is there as long as `metrics` is asked.
  void add_collectors(Metrics& metrics) const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace penstock
