// A change of one row of a volume's LevelDB, on its way into the group commit.
#pragma once
#include <optional>
#include <string>

namespace penstock {

// No value removes the row; removing an absent row succeeds.
struct RowOp {
  std::string key;  // as made by row_key.h
  std::optional<std::string> value;
};

}  // namespace penstock
