// Every register that any of several volumes holds a row of, each once, in the order of their row
// keys: a merge of the volumes' own lists. What background work walks; it looks at no group epoch.
// Thread-safety: one coroutine at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "penstock/runtime.h"
#include "penstock/volume_client.h"

namespace penstock {

class RegisterWalk {
 public:
  struct Found {
    RegisterKey key;
    std::uint32_t partitions = 1;  // of its bucket
  };

  // `page_rows`: rows asked of a volume at once.
  RegisterWalk(RowKind kind, std::vector<std::shared_ptr<VolumeClient>> volumes, Clock& clock,
               std::uint32_t page_rows);

  // The next registers, at most `count`; none at the end. A volume that fails is left out from then
  // on: see listed(). Errors: timeout.
  Task<std::vector<Found>> next(std::size_t count, Deadline deadline);
  // After the end: the volumes whose rows were all seen. One with rows that it cannot read is none:
  // what it has forgotten may be what a majority rests on.
  std::vector<VolumeId> listed() const;

 private:
  struct Cursor {
    std::shared_ptr<VolumeClient> client;
    std::vector<RegisterEntry> rows;
    std::size_t taken = 0;
    std::optional<RegisterKey> covered;  // where the next call goes on
    bool at_end = false;
    bool failed = false;
    bool damaged = false;
    bool empty() const { return taken == rows.size(); }
    bool speaks() const { return !failed && !(at_end && empty()); }
  };
  Task<> fill(Deadline deadline);

  const RowKind kind_;
  Clock& clock_;
  const std::uint32_t page_rows_;
  std::vector<Cursor> cursors_;
};

}  // namespace penstock
