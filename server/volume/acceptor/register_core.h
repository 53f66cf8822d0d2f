// What the parts of a register store share: the acceptor's state, under one mutex that is never
// held during disk I/O or over an await, and what reads look at instead. Internal to the store.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "penstock/counted_mutex.h"
#include "penstock/runtime.h"
#include "server/volume/acceptor/acceptor_state.h"
#include "server/volume/acceptor/register_parts.h"
#include "server/volume/disk/pending_calls.h"
#include "server/volume/rows/database.h"

namespace penstock {

class RegisterCore {
 public:
  RegisterCore(Database& database_in, Clock& clock_in, std::uint64_t start_number,
               const VolumeMeta& meta, std::size_t cache_bytes, std::size_t ballot_bytes,
               std::size_t promise_slots)
      : database(database_in),
        clock(clock_in),
        start(clock_in, start_number),
        acceptor(meta, promise_slots),
        rows(cache_bytes, ballot_bytes, start_number, acceptor.gate()) {}

  Database& database;
  Clock& clock;
  const VolumeStart start;
  const std::shared_ptr<PendingCalls> pending = std::make_shared<PendingCalls>();

  CountedMutex mutex{LockName::acceptor};  // guards the next three; taken before those of `rows`
  AcceptorState acceptor;
  std::optional<Error> closed;              // why nothing is answered any more
  std::optional<BootTime> future_reported;  // R2: when the last alarm was given

  // A key's writes begin and end under the mutex.
  RegisterParts rows;

  // ---- Pre: mutex held.
  Result<> gate(const Round& round, BucketId bucket) const {
    if (closed) return *closed;
    return acceptor.gate().check(round, bucket);
  }
  // Only the first reason counts.
  void close(Error why) {
    if (closed) return;
    closed = std::move(why);
    rows.set_gate(acceptor.gate(), closed);
  }
  // The acceptor's gate may have changed: reads pass by it from now on.
  void tell_gate() {
    if (std::exchange(told_, acceptor.gate().changes()) == acceptor.gate().changes()) return;
    rows.set_gate(acceptor.gate(), closed);
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
  std::uint64_t told_ = acceptor.gate().changes();  // the changes of the gate that reads pass by
};

}  // namespace penstock
