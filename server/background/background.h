// The background work of a process: its jobs side by side, each a pass now and a pass again, until
// stopped.
//   hints      what updates freed                                 hint_worker.h
//   orphans    fragments that no record names                     orphan_sweep.h
//   uploads    expired, half-completed and ended ones             upload_sweep.h
//   tombstones the rows of what was deleted                       tombstone_purge.h
//   buckets    removals that were cut off                         bucket_sweep.h
//   rows       of buckets and uploads that are gone               stray_rows.h
// Thread-safety: start(), stop() and stopped() on one executor; status() from any thread.
#pragma once
#include <memory>

#include "server/background/removal/background_context.h"

namespace penstock {

class BackgroundWork {
 public:
  explicit BackgroundWork(BackgroundContext context);
  ~BackgroundWork();

  void start(Executor executor);
  // Each job ends after the step that is under way.
  void stop();
  // Until all jobs have ended. Pre: stop() was called.
  Awaitable<void> finish();
  BackgroundStatus status() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the running jobs
};

}  // namespace penstock
