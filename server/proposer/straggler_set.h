// The register calls of a process that run on when their round is over (R5: never cancelled).
// Accepts past their majority are counted per volume; past the bound a volume gets no new ones.
// Thread-safety: any thread.
#pragma once
#include <atomic>
#include <map>
#include <vector>

#include "penstock/async.h"
#include "penstock/counted_mutex.h"
#include "penstock/types.h"

namespace penstock {

class StragglerSet {
 public:
  ~StragglerSet();

  // False: the volume is at its bound. The caller leaves it out of the round.
  bool has_room(VolumeId volume) const;

  // Each call: started() … ended(). An accept that its round leaves behind: add() … remove()
  // between.
  void started() { running_.fetch_add(1); }
  void ended();
  void add(VolumeId volume, std::size_t bytes);
  void remove(VolumeId volume, std::size_t bytes);
  std::size_t count() const { return stragglers_.load(); }
  // Until no call is under way.
  Awaitable<void> drain();

 private:
  struct Load {
    std::size_t frames = 0;
    std::size_t bytes = 0;
  };
  std::atomic<std::size_t> running_{0};
  std::atomic<std::size_t> stragglers_{0};
  mutable CountedMutex mutex_{LockName::rounds};  // guards what follows
  std::map<VolumeId, Load> loads_;
  std::vector<Completion<void>> drainers_;
};

}  // namespace penstock
