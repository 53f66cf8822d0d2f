// A map source under a seed: etcd as its clients may see it. It compares and swaps, answers late or
// not at all, comes back older or empty; and it forks: two halves go on with heads of their own,
// each of which looks sound to those that ask it.
// Thread-safety: none; lives in simulated time.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/map_source/map_source.h"
#include "tests/sim/sim_time.h"

namespace penstock::sim {

class SimMapSource {
 public:
  SimMapSource(SimTime& time, std::shared_ptr<const ClusterMap> first);

  enum class State : std::uint8_t {
    sound,
    away,     // refuses all connections
    stalled,  // takes calls, does what they ask, and does not answer
  };
  State state = State::sound;

  static constexpr std::size_t kHalves = 2;
  // The head of a half; while it is not forked, of the source.
  const MapHead& head(std::size_t half = 0) const { return halves_[forked_ ? half : 0]; }
  // As somebody who restores a backup: this map (null: none) is the head, under a new revision.
  void put_back(std::shared_ptr<const ClusterMap> map, std::size_t half = 0);
  // It never forked, and never lost what it had answered.
  bool kept_its_word() const { return kept_its_word_; }
  // All maps that were the head of some half, in the order of their replacement.
  const std::vector<std::shared_ptr<const ClusterMap>>& past() const { return past_; }
  void fork();
  bool forked() const { return forked_; }
  // One half is the source again, the other one is forgotten.
  void join(std::size_t winner);

  // What a process has of it; it asks one half while there are two. Ownership: borrows the source
  // and the clock.
  std::unique_ptr<MapSource> open(Clock& clock, std::size_t half);

 private:
  class Handle;
  void set(std::shared_ptr<const ClusterMap> map, std::size_t half);
  Result<MapRevision> replace(std::shared_ptr<const ClusterMap> map, const MapRevision& expected,
                              std::size_t half);
  SimTime& time_;
  std::array<MapHead, kHalves> halves_;
  std::vector<std::shared_ptr<const ClusterMap>> past_;
  std::uint64_t changes_ = 0;
  bool forked_ = false;
  bool kept_its_word_ = true;
};

}  // namespace penstock::sim
