// Is the history of one key linearizable? Just-in-time linearization (Lowe, "Testing for
// linearizability", 2017) over a register that holds a value number (0 = absent), with conditional
// writes and operations whose outcome is unknown. The history is walked in the order of time; of
// each answer all ways are kept in which the operations open at that moment may have acted. Cost:
// linear in the length, exponential only in what is open at once; an unknown write stays open.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace penstock::sim {

using Value = std::uint32_t;  // 0 = absent; else the number of the write that made it
// The key's bucket is not there: nothing can be written, and it is not even absent.
inline constexpr Value kNoBucket = ~Value{0};

struct Operation {
  enum class Kind : std::uint8_t { read, write };
  enum class Outcome : std::uint8_t {
    ok,
    refused,  // a condition did not hold (412, or 404 of If-Match)
    unknown,  // may act at any time from its call on, if its condition holds then
    either,   // has ended, and acted if its condition held
  };
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

// Operations of one key that are open at one moment, those of unknown outcome included.
inline constexpr std::size_t kOpenMax = 64;
inline constexpr const char* kTooManyOpen = "too many operations are open at once to judge";

// Empty if there is an order of the operations, consistent with real time, in which each did what
// it answered; else a report, also where too many operations are open to judge.
std::optional<std::string> check_linearizable(const std::vector<Operation>& history,
                                              Value initial = 0);

}  // namespace penstock::sim
