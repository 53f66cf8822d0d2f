// What `penstock ring` asks of a running store, as JSON (control_socket.h): {"op":"status"} and
// {"op":"replace","volume":ID|NAME|PATH,"with":PATH}. An answer has "ok", and "error" if that is
// false. Thread-safety: one question at a time, not on an I/O thread: answers may take a while.
#pragma once
#include <cstdint>
#include <string>

#include "server/background/replacement/volume_replacement.h"
#include "server/membership/membership.h"
#include "server/node/new_volume.h"
#include "server/node/volume_set.h"

namespace penstock {

class RingControl {
 public:
  // Ownership: borrows all.
  RingControl(const Membership& membership, VolumeSet& volumes, NewVolume& new_volume,
              VolumeReplacement& replacement, IoThreads& io)
      : membership_(membership),
        volumes_(volumes),
        new_volume_(new_volume),
        replacement_(replacement),
        io_(io) {}

  std::string answer(const std::string& question);
  // Nothing is missing: every volume of the map is open and no change is under way.
  bool is_whole() const;
  std::uint64_t map_epoch() const { return volumes_.map()->epoch.value; }
  ReplacementStatus status() const { return replacement_.status(); }
  // One line for /readyz.
  std::string line() const;

 private:
  std::string tell_status() const;
  // By what answers, not by what is open: as /readyz and /metrics have it.
  bool takes_writes() const;
  Result<> replace(const std::string& which, const std::string& path);
  Result<MapVolume> find_volume(const std::string& which) const;

  const Membership& membership_;
  VolumeSet& volumes_;
  NewVolume& new_volume_;
  VolumeReplacement& replacement_;
  IoThreads& io_;
};

}  // namespace penstock
