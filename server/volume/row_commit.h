// How the parts of a volume share its one LevelDB: rows are written only through the volume's group
// commit, so that one synced batch serves registers, extents and notes alike.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"

namespace penstock {

// One change of one row; no value removes the row (removing an absent row succeeds).
struct RowOp {
  std::string key;  // as made by row_key.h
  std::optional<std::string> value;
};

// Thread-safety: all methods from any thread.
class RowCommitter {
 public:
  virtual ~RowCommitter() = default;
  // Writes `rows` together: all or none after a crash. Durable when it succeeds.
  // Errors: unavailable - the volume is closed, nothing was written; io - the write failed, which
  // closes the volume; overloaded - the queue is full.
  virtual Task<> commit_rows(std::vector<RowOp> rows) = 0;
  // Calls `visit` for each row whose key begins with `prefix`, in key order, as last synced.
  // Blocks: call it on a worker, or while the volume opens. Stops at the first error of `visit`.
  // Errors: corrupt - some block of the database cannot be read; those of `visit`.
  virtual Result<> visit_rows(
      std::string_view prefix,
      const std::function<Result<>(std::string_view key, std::string_view value)>& visit) = 0;
};

}  // namespace penstock
