#include "tests/sim/linearizability.h"

#include <algorithm>
#include <cassert>
#include <unordered_set>

namespace penstock::sim {
namespace {

// The value after `operation` acts on `state`; nothing if it cannot have acted here and answered
// what it did.
std::optional<Value> act(const Operation& operation, Value state) {
  if (operation.kind == Operation::Kind::read) {
    if (operation.outcome == Operation::Outcome::unknown) return state;
    if (state != operation.value) return std::nullopt;
    return state;
  }
  bool holds = true;
  if (operation.condition == Operation::Condition::must_be_absent) holds = state == 0;
  if (operation.condition == Operation::Condition::must_be) holds = state == operation.expected;
  switch (operation.outcome) {
    case Operation::Outcome::ok:
      return holds ? std::optional(operation.value) : std::nullopt;
    case Operation::Outcome::refused:
      return holds ? std::nullopt : std::optional(state);
    case Operation::Outcome::unknown:
      return holds ? operation.value : state;
  }
  return std::nullopt;
}

struct Search {
  const std::vector<Operation>& history;
  std::unordered_set<std::uint64_t>
      seen;  // (done set, state) folded; a collision could only hide a violation of 2^-64
  std::uint64_t must_end = 0;  // operations that are known to have happened

  bool run(std::uint64_t done, Value state) {
    if ((done & must_end) == must_end) return true;
    if (!seen.insert(done * 0x9e3779b97f4a7c15ull ^
                     (std::uint64_t{state} + 1) * 0xbf58476d1ce4e5b9ull)
             .second)
      return false;
    // An operation may come next if no other open one had already answered before it was called.
    std::int64_t first_answer = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < history.size(); ++i) {
      if ((done >> i & 1) == 0) first_answer = std::min(first_answer, history[i].answer);
    }
    for (std::size_t i = 0; i < history.size(); ++i) {
      if ((done >> i & 1) != 0 || history[i].call > first_answer) continue;
      const auto next = act(history[i], state);
      if (next && run(done | std::uint64_t{1} << i, *next)) return true;
    }
    return false;
  }
};

std::string describe(const std::vector<Operation>& history) {
  std::string text = "no linear order explains this history:\n";
  for (const auto& operation : history) {
    text += "  [" + std::to_string(operation.call) + ", ";
    text +=
        operation.outcome == Operation::Outcome::unknown ? "?" : std::to_string(operation.answer);
    text += operation.kind == Operation::Kind::read ? "] read " : "] write ";
    text += std::to_string(operation.value);
    if (operation.condition == Operation::Condition::must_be_absent) text += " if absent";
    if (operation.condition == Operation::Condition::must_be)
      text += " if " + std::to_string(operation.expected);
    if (operation.outcome == Operation::Outcome::refused) text += " refused";
    text += "\n";
  }
  return text;
}

}  // namespace

std::optional<std::string> check_linearizable(const std::vector<Operation>& history,
                                              Value initial) {
  assert(history.size() <= kHistoryMax);
  Search search{history, {}, 0};
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (history[i].outcome != Operation::Outcome::unknown) search.must_end |= std::uint64_t{1} << i;
  }
  if (search.run(0, initial)) return std::nullopt;
  return describe(history);
}

}  // namespace penstock::sim
