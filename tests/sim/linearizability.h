// Is the history of one key linearizable? The search of Wing and Gong with the memo of Lowe (2017),
// over a register that holds a value number (0 = absent), with conditional writes and operations
// whose outcome is unknown. Cost: exponential in overlapping operations in the worst case;
// histories are cut to at most 62 operations a key.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace penstock::sim {

using Value = std::uint32_t;  // 0 = absent; else the number of the write that made it

struct Operation {
  enum class Kind : std::uint8_t { read, write };
  enum class Outcome : std::uint8_t {
    ok,
    refused,
    unknown
  };  // refused: a condition did not hold (412, or 404 of If-Match)
  enum class Condition : std::uint8_t { none, must_be_absent, must_be };
  Kind kind = Kind::read;
  Value value = 0;  // read: what was seen; write: what was written (0 = deleted)
  Condition condition = Condition::none;
  Value expected = 0;  // must_be
  Outcome outcome = Outcome::ok;
  std::int64_t call = 0;
  std::int64_t answer =
      std::numeric_limits<std::int64_t>::max();  // unknown: never known to have ended
};

inline constexpr std::size_t kHistoryMax = 62;

// Empty if there is an order of the operations, consistent with real time, in which each did what
// it answered; else a report. Pre: at most kHistoryMax operations.
std::optional<std::string> check_linearizable(const std::vector<Operation>& history,
                                              Value initial = 0);

}  // namespace penstock::sim
