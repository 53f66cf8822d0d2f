// What a read of a register looks at before LevelDB: rows in memory, the ballots that rows are
// known to have, and the gate. In parts by key, each under a lock of its own that is never held
// during disk I/O or over an await: on a machine with many cores all reads come by here, and none
// takes the acceptor's lock.
//
// Invariant: a row or a ballot kept here is that of the row in LevelDB. A key whose accept or drop
// is being written is busy, and neither is kept: its readers ask LevelDB, which shows the old row
// up to the moment when it shows the new one for ever; a scan therefore never runs ahead of a read.
// Thread-safety: all methods from any thread.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "penstock/counted_mutex.h"
#include "server/volume/acceptor/ballot_fingerprints.h"
#include "server/volume/acceptor/register_cache.h"
#include "server/volume/acceptor/round_gate.h"

namespace penstock {

class RegisterParts {
 public:
  // A read that is under way remembers the stamp of its key; it may keep what it has read only if
  // no write of the key began or ended meanwhile.
  using Stamp = std::uint64_t;
  struct Kept {
    RowPtr row;  // null: ask LevelDB
    Stamp stamp = 0;
  };

  // `seed`: a random number of this start of the volume.
  RegisterParts(std::size_t cache_bytes, std::size_t ballot_bytes, std::uint64_t seed,
                const RoundGate& gate);

  // ---- for reads. Errors: why the store is closed; as RoundGate.
  Result<Kept> find(const Round& round, const RegisterKey& key);
  // Whether the row is known to be at this ballot. False: ask for the row.
  Result<bool> holds_ballot(const Round& round, const RegisterKey& key, const Ballot& ballot);
  // Behind a read of LevelDB: whether the call may still be answered. Offers `row` to the cache
  // unless it is null or the key was written since.
  Result<> pass(const Round& round, const RegisterKey& key, RowPtr row, Stamp before);

  // ---- for commits
  Kept find(const RegisterKey& key);
  // A prepare looks at the row, then its accept: so it is kept at once.
  void keep(const RegisterKey& key, RowPtr row, Stamp before);
  bool is_busy(const RegisterKey& key);
  void begin_write(const RegisterKey& key);
  void end_write(const RegisterKey& key, RowPtr row);
  void abort_write(const RegisterKey& key);
  // Its row was found to be damaged: what is known of it from before is no vote any more.
  void forget(const RegisterKey& key);

  // From now on reads pass by this. While it runs, they pass by the old one or the new one.
  void set_gate(const RoundGate& gate, const std::optional<Error>& closed);

 private:
  static constexpr std::size_t kPartsMax = 64;
  static constexpr std::size_t kPartBytesMin = 64 * limits::kKiB;
  static constexpr std::size_t kStampSlots = 64;

  struct Gate {
    RoundGate rounds;
    std::optional<Error> closed;  // why nothing is answered any more
  };
  struct Part {
    Part(std::size_t cache_bytes, std::size_t ballot_bytes, std::uint64_t seed,
         std::shared_ptr<const Gate> gate_in)
        : gate(std::move(gate_in)), cache(cache_bytes), ballots(ballot_bytes, seed) {}
    Result<> check(const Round& round, BucketId bucket) const {
      if (gate->closed) return *gate->closed;
      return gate->rounds.check(round, bucket);
    }
    Kept find(const RegisterKey& key, std::size_t hash) {
      const RowPtr* row = cache.find(key, hash);
      return {row == nullptr ? nullptr : *row, stamp_of(hash)};
    }
    bool is_busy(const RegisterKey& key) const;
    // No write of the key has begun or ended since: what was read after `before` is the row still.
    bool is_current(const RegisterKey& key, std::size_t hash, Stamp before) const;
    Stamp& stamp_of(std::size_t hash) { return stamps[hash % kStampSlots]; }

    CountedMutex mutex{LockName::registers};  // guards all below
    std::shared_ptr<const Gate> gate;
    RegisterCache cache;
    BallotFingerprints ballots;
    std::unordered_set<RegisterKey, RegisterKeyHash> busy;  // of one batch
    std::array<Stamp, kStampSlots> stamps{};
  };
  // The part of a key, while this lives under its lock.
  struct Locked {
    Locked(RegisterParts& parts, const RegisterKey& key)
        : hash(RegisterKeyHash{}(key)), part(parts.part_of(hash)), lock(part.mutex) {}
    const std::size_t hash;
    Part& part;
    const CountedLock lock;
  };
  // By bits of the hash that the caches do not look at first.
  Part& part_of(std::size_t hash) { return *parts_[(hash >> 40) % parts_.size()]; }

  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace penstock
