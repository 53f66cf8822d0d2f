// Looks whether the directory of one volume is still the one that was opened, on a thread of a pool
// that has one left for the others while a few of them hang.
// Thread-safety: one thread; the look itself touches only what it shares.
#pragma once
#include <chrono>
#include <memory>

#include "penstock/worker_pool.h"
#include "server/volume/volume.h"

namespace penstock {

class IdentityCheck {
 public:
  explicit IdentityCheck(WorkerPool& threads);
  // Waits for a look that is under way, unless it was abandoned.
  ~IdentityCheck();

  // Begins a look; the volume is closed if its directory is another. False: one is under way.
  bool begin(const std::shared_ptr<Volume>& volume);
  // Until the look has ended, but not past `until`.
  void wait(std::chrono::steady_clock::time_point until);
  // Should a look be under way, its thread is left behind: it may never end.
  void abandon();

 private:
  struct State;
  std::shared_ptr<State> state_;  // with the look, which may outlive this
  std::unique_ptr<Worker> worker_;
};

}  // namespace penstock
