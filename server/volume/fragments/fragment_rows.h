// The extent rows of a volume: which fragments it holds, and where. They live in the volume's
// LevelDB and are written by its group commit; the fragment store sees them through this interface.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

// The value is opaque here: fragment_format.h encodes it.
// Thread-safety: all methods from any thread. put() and erase() are awaited on an I/O thread; get()
// and for_each() block and are called on workers, or while the volume opens.
class ExtentRows {
 public:
  virtual ~ExtentRows() = default;
  // Durable when it succeeds. Replaces the row of this id, if there is one.
  // Errors: overloaded, unavailable - nothing was written; io - the outcome is unknown until the
  // next start.
  virtual Task<> put(FragmentId id, std::string row) = 0;
  // Durable when it succeeds. Erasing an absent row succeeds. Errors: as put().
  virtual Task<> erase(FragmentId id) = 0;
  // A row whose put() succeeded is seen; one that is being written may be.
  virtual Result<std::optional<std::string>> get(FragmentId id) = 0;
  // Visits the rows after `after` (all, if absent) in ascending order of id until `visit` returns
  // false. Errors: corrupt - some rows cannot be read; those of `visit`.
  using Visit = std::function<Result<bool>(const FragmentId& id, std::string_view row)>;
  virtual Result<> for_each(std::optional<FragmentId> after, const Visit& visit) = 0;
};

}  // namespace penstock
