// What the parts of a register store share: the acceptor's state and the cache, under one mutex
// that is never held during disk I/O or over an await. Internal to the store.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <utility>

#include "penstock/planted.h"
#include "penstock/runtime.h"
#include "server/volume/acceptor/acceptor_state.h"
#include "server/volume/acceptor/register_cache.h"
#include "server/volume/disk/pending_calls.h"
#include "server/volume/rows/database.h"

namespace penstock {

// Invariant: a row in the cache equals the row in LevelDB. A key whose accept or drop is being
// written is busy and not in the cache: its readers ask LevelDB, which shows the old row up to the
// moment when it shows the new one for ever; a scan therefore never runs ahead of a read.
class RegisterCore {
 public:
  RegisterCore(Database& database_in, Clock& clock_in, std::uint64_t start_number,
               const VolumeMeta& meta, std::size_t cache_bytes, std::size_t promise_slots)
      : database(database_in),
        clock(clock_in),
        start(clock_in, start_number),
        acceptor(meta, promise_slots),
        cache(cache_bytes) {}

  Database& database;
  Clock& clock;
  const VolumeStart start;
  const std::shared_ptr<PendingCalls> pending = std::make_shared<PendingCalls>();

  // A read that is under way remembers the stamp of its key; it may fill the cache only if no write
  // of the key began or ended meanwhile.
  using Stamp = std::uint64_t;

  std::mutex mutex;  // guards all below
  AcceptorState acceptor;
  RegisterCache cache;
  std::optional<Error> closed;              // why nothing is answered any more
  std::optional<BootTime> future_reported;  // R2: when the last alarm was given

  // ---- Pre: mutex held.
  Result<> gate(const Round& round, BucketId bucket) const {
    if (closed) return *closed;
    return acceptor.gate(round, bucket);
  }
  bool is_busy(const RegisterKey& key) const {
    return busy_.contains(key) && holds(Rule::busy_key);
  }
  void begin_write(const RegisterKey& key) {
    busy_.insert(key);
    cache.erase(key);
    ++stamps_[slot(key)];
  }
  void end_write(const RegisterKey& key, RowPtr row) {
    busy_.erase(key);
    ++stamps_[slot(key)];
    cache.put(key, std::move(row));
  }
  void abort_write(const RegisterKey& key) {
    busy_.erase(key);
    ++stamps_[slot(key)];
  }
  Stamp stamp(const RegisterKey& key) const { return stamps_[slot(key)]; }
  // No write of the key has begun or ended since: what was read after `before` is the row still.
  bool is_unchanged(const RegisterKey& key, Stamp before) const {
    return !is_busy(key) && stamp(key) == before;
  }
  void fill_cache(const RegisterKey& key, RowPtr row, Stamp before) {
    if (is_unchanged(key, before)) cache.put(key, std::move(row));
  }

  // ---- Blocks; mutex not held. Errors: corrupt.
  Result<RowPtr> load(const RegisterKey& key);
  struct RowWithInline {
    RowPtr row;
    SharedBytes inline_bytes;  // null: it has none
  };
  Result<RowWithInline> load_with_inline(const RegisterKey& key);

  // ---- On an I/O thread; mutex not held. Never waits for the disk. Null: ask those above.
  RowPtr load_now(const RegisterKey& key);
  SharedBytes load_inline_now(const RegisterRow& row);

 private:
  static constexpr std::size_t kStampSlots = 1024;
  static std::size_t slot(const RegisterKey& key) { return RegisterKeyHash{}(key) % kStampSlots; }

  std::unordered_set<RegisterKey, RegisterKeyHash> busy_;  // of one batch
  std::array<Stamp, kStampSlots> stamps_{};
};

}  // namespace penstock
