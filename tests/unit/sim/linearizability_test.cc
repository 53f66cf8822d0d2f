#include "tests/sim/linearizability.h"

#include <doctest/doctest.h>

#include <random>

using namespace penstock::sim;

namespace {
using Kind = Operation::Kind;
using Outcome = Operation::Outcome;
using Condition = Operation::Condition;

Operation read(Value value, std::int64_t call, std::int64_t answer) {
  Operation operation;
  operation.value = value;
  operation.call = call;
  operation.answer = answer;
  return operation;
}
Operation write(Value value, std::int64_t call, std::int64_t answer) {
  Operation operation = read(value, call, answer);
  operation.kind = Kind::write;
  return operation;
}
Operation unknown(Value value, std::int64_t call) {
  Operation operation = write(value, call, std::numeric_limits<std::int64_t>::max());
  operation.outcome = Outcome::unknown;
  return operation;
}
Operation if_absent(Operation operation, Outcome outcome = Outcome::ok) {
  operation.condition = Condition::must_be_absent;
  operation.outcome = outcome;
  return operation;
}
Operation if_is(Operation operation, Value expected, Outcome outcome = Outcome::ok) {
  operation.condition = Condition::must_be;
  operation.expected = expected;
  operation.outcome = outcome;
  return operation;
}
}  // namespace

TEST_CASE("what a register may show, and what it may not") {
  struct Row {
    const char* what;
    std::vector<Operation> history;
    bool linearizable;
  };
  const Row rows[] = {
      {"nothing", {}, true},
      {"a read of nothing", {read(0, 1, 2)}, true},
      {"a read of what nobody wrote", {read(1, 1, 2)}, false},
      {"a write, then its read", {write(1, 1, 2), read(1, 3, 4)}, true},
      {"a read before the write began", {read(1, 1, 2), write(1, 3, 4)}, false},
      {"a stale read", {write(1, 1, 2), write(2, 3, 4), read(1, 5, 6)}, false},
      {"either of two at once", {write(1, 1, 9), write(2, 1, 9), read(1, 10, 11)}, true},
      {"two readers that disagree after both writes",
       {write(1, 1, 9), write(2, 1, 9), read(1, 10, 11), read(2, 12, 13)},
       false},
      {"the new value, then the old one, while the write is under way",
       {write(1, 1, 2), write(2, 3, 20), read(2, 4, 5), read(1, 6, 7)},
       false},
      {"an unknown write that shows late", {unknown(1, 1), read(0, 2, 3), read(1, 4, 5)}, true},
      {"an unknown write that shows and goes",
       {unknown(1, 1), read(1, 2, 3), read(0, 4, 5)},
       false},
      {"an unknown write that shows before it began", {read(1, 1, 2), unknown(1, 3)}, false},
      {"two winners",
       {if_absent(write(1, 1, 9)), if_absent(write(2, 1, 9))},
       false},
      {"one winner", {if_absent(write(1, 1, 9)), if_absent(write(2, 1, 9), Outcome::refused)}, true},
      {"no winner",
       {if_absent(write(1, 1, 9), Outcome::refused), if_absent(write(2, 1, 9), Outcome::refused)},
       false},
      {"a refusal by an unknown write",
       {unknown(3, 1), if_absent(write(1, 2, 9), Outcome::refused), read(3, 10, 11)},
       true},
      {"a swap of another's value", {write(1, 1, 2), if_is(write(2, 3, 4), 7)}, false},
      {"a chain of swaps", {write(1, 1, 2), if_is(write(2, 3, 4), 1), if_is(write(3, 5, 6), 2)}, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(check_linearizable(row.history).has_value() == !row.linearizable);
  }
}

TEST_CASE("long histories of many writers are judged, and one planted fault in them is found") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 4; ++round) {
    // Operations act at a moment of their own between call and answer.
    std::vector<Operation> history;
    struct Act {
      std::int64_t when;
      std::size_t operation;
    };
    std::vector<Act> acts;
    for (std::size_t i = 0; i < 2000; ++i) {
      const auto when = static_cast<std::int64_t>(i) * 10 + 100;
      const auto before = static_cast<std::int64_t>(random() % 80);
      const auto after = static_cast<std::int64_t>(random() % 80);
      const bool writes = random() % 3 == 0;
      Operation operation = writes ? write(static_cast<Value>(i + 1), when - before, when + after)
                                   : read(0, when - before, when + after);
      if (writes && random() % 100 == 0) operation = unknown(operation.value, operation.call);
      history.push_back(operation);
      acts.push_back({when, i});
    }
    Value state = 0;
    for (const Act& act : acts) {
      Operation& operation = history[act.operation];
      if (operation.kind == Kind::read) operation.value = state;
      if (operation.kind == Kind::write && (operation.outcome == Outcome::ok || random() % 2 == 0)) {
        state = operation.value;
      }
    }
    CHECK_FALSE(check_linearizable(history).has_value());
    // One read in the later half sees a value that was overwritten long before.
    for (std::size_t i = 1500; i < history.size(); ++i) {
      if (history[i].kind != Kind::read || history[i].value == history[200].value) continue;
      for (std::size_t j = 100; j < 400; ++j) {
        if (history[j].kind == Kind::write && history[j].outcome == Outcome::ok) {
          history[i].value = history[j].value;
          break;
        }
      }
      break;
    }
    CHECK(check_linearizable(history).has_value());
  }
}

TEST_CASE("races of many clients for one key are judged") {
  std::vector<Operation> history;
  for (Value i = 1; i <= 60; ++i) {
    history.push_back(if_absent(write(i, i, 1000 + i), i == 33 ? Outcome::ok : Outcome::refused));
  }
  CHECK_FALSE(check_linearizable(history).has_value());
  history[10].outcome = Outcome::ok;
  CHECK(check_linearizable(history).has_value());
}
