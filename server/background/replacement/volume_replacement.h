// Replaces a volume by a new one while the store is in use (R12). The map says how far it has come
// (map_change.h), so after a crash at any point whoever has the map goes on:
//
//   begin()        the joint map is durable before anything else is done: at more than half of the
//                  volumes of the map before and of the new one, as is every later map
//   joint phase    a write-back for every row of a joint group, found by listing a majority of
//                  its old list; then the map with the new lists. A joining volume that is away is
//                  waited for: without it the new lists could lose no volume more
//   moving phase   passes over all registers, until one finds nothing left to do: fragments on the
//                  old volume, and such as were never written, are made on others, those with the
//                  fewest spares first; then the map without the old volume. The last pass
//                  makes a write-back for every open upload, behind its parts: a Complete that
//                  has listed them before lists them again (upload_moves.h)
//
// Volumes that were away meanwhile are brought to the map when they come back.
// One per cluster. Rate limited. Thread-safety: start(), stop(), begin() and finish() on one
// executor; status() from any thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "placement/map_change.h"
#include "server/blobs/blobs.h"
#include "server/proposer/proposer.h"

namespace penstock {

struct ReplacementOptions {
  double rows_per_second = 2000;                 // rows looked at, and write-backs
  double bytes_per_second = 128 * limits::kMiB;  // fragments made
  std::uint32_t page_rows = 1000;                // rows that a volume lists at a time
  Duration look_every = std::chrono::milliseconds(200);
  Duration retry_after = std::chrono::seconds(1);
  // So long the joint phase waits for a joining volume that is away. Then that counts as one lost,
  // to be replaced in its turn: a joint phase is not to last for ever.
  Duration join_patience = std::chrono::minutes(10);
};

// What, done, total, rate.
struct ReplacementStatus {
  bool active = false;
  std::string what;  // counting rows, bringing rows, looking for fragments, moving fragments
  VolumeId leaving;
  VolumeId joining;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  double rate = 0;      // per second
  std::string trouble;  // why it does not go on; it is tried again
  // Since the start of the process.
  std::uint64_t rows_brought = 0;
  std::uint64_t fragments_moved = 0;
  std::uint64_t bytes_moved = 0;
  std::uint64_t replaced = 0;
  std::uint64_t fragments_missing = 0;  // named by records, never written; as of the last pass
};

// Ownership: borrows all but the values.
struct ReplacementParts {
  Membership& membership;
  Proposer& proposer;
  Blobs& blobs;
  Clock& clock;
  ReplacementOptions options;
  // A newer map holds: the volumes that it names no more are of no use. May be empty.
  std::function<void(std::shared_ptr<const ClusterMap>)> on_map;
  // Makes a newer map the head of the map's source, before any volume gets it: whoever follows the
  // source, and so the next driver, goes on from there, however few volumes got it. Does nothing
  // where it is the head already. Empty: the volumes are the source.
  std::function<Task<>(std::shared_ptr<const ClusterMap>)> to_source = {};
};

class VolumeReplacement {
 public:
  explicit VolumeReplacement(ReplacementParts parts);
  ~VolumeReplacement();

  // `client` leads to the fresh volume `joining`. Durable when it succeeds; the rest goes on by
  // itself. Errors: not_found, busy, invalid - see begin_replacement(); unavailable - too few
  // volumes are open, nothing has changed then; or too few took the joint map: if some did, it
  // begins when more do.
  Task<> begin(VolumeId leaving, MapVolume joining, std::shared_ptr<VolumeClient> client);

  // Goes on with what the map says, now and whenever something begins.
  void start(Executor executor);
  void stop();
  // Pre: stop() was called.
  Awaitable<void> finish();
  ReplacementStatus status() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with its running coroutine
};

}  // namespace penstock
