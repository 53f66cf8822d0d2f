#include "tests/sim/linearizability.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <map>
#include <utility>

namespace penstock::sim {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// The value after `operation` acts on `state`; nothing if it cannot have acted here and answered
// what it did.
std::optional<Value> act(const Operation& operation, Value state) {
  if (operation.kind == Operation::Kind::read) {
    if (state != operation.value) return std::nullopt;
    return state;
  }
  // Who deletes a bucket that another one deletes meanwhile may be told that it is gone.
  if (operation.value == kNoBucket && state == kNoBucket) return state;
  bool holds = state != kNoBucket;
  if (operation.condition == Operation::Condition::must_be_absent) holds = state == 0;
  if (operation.condition == Operation::Condition::must_be) holds = state == operation.expected;
  switch (operation.outcome) {
    case Operation::Outcome::ok:
      return holds ? std::optional(operation.value) : std::nullopt;
    case Operation::Outcome::refused:
      return holds ? std::nullopt : std::optional(state);
    case Operation::Outcome::unknown:
    case Operation::Outcome::either:
      return holds ? operation.value : state;
  }
  return std::nullopt;
}

std::string describe(const Operation& operation) {
  std::string text = "  [" + std::to_string(operation.call) + ", ";
  text += operation.answer == kNever ? "?" : std::to_string(operation.answer);
  text += operation.kind == Operation::Kind::read ? "] read " : "] write ";
  text += operation.value == kNoBucket ? "no bucket" : std::to_string(operation.value);
  if (operation.condition == Operation::Condition::must_be_absent) text += " if absent";
  if (operation.condition == Operation::Condition::must_be) {
    text += " if " + std::to_string(operation.expected);
  }
  if (operation.outcome == Operation::Outcome::refused) text += " refused";
  if (operation.outcome == Operation::Outcome::unknown) text += " unknown";
  if (operation.outcome == Operation::Outcome::either) text += " if it could";
  return text + "\n";
}

struct Event {
  std::int64_t when = 0;
  bool is_answer = false;
  std::size_t operation = 0;
  // What happens at one moment overlaps: calls come first.
  auto operator<=>(const Event&) const = default;
};

// One way in which things may have gone: the value now, and which of the open operations have
// acted.
struct Way {
  Value state = 0;
  std::uint64_t acted = 0;  // bit per place in `open_`
};
// By value and the known operations that have acted: the sets of unknown ones that have.
using Ways = std::map<std::pair<Value, std::uint64_t>, std::vector<std::uint64_t>>;

class Judge {
 public:
  Judge(const std::vector<Operation>& history, Value initial) : history_(history) {
    ways_[{initial, 0}].push_back(0);
    places_.resize(history.size());
  }

  std::optional<std::string> run() {
    std::vector<Event> events;
    for (std::size_t i = 0; i < history_.size(); ++i) {
      const Operation& operation = history_[i];
      const bool unknown = operation.outcome == Operation::Outcome::unknown;
      if (unknown && operation.kind == Operation::Kind::read) continue;  // says nothing
      events.push_back({operation.call, false, i});
      if (!unknown) events.push_back({operation.answer, true, i});
    }
    std::sort(events.begin(), events.end());
    for (const Event& event : events) {
      if (!event.is_answer) {
        if (!open(event.operation)) return kTooManyOpen;
        continue;
      }
      answer(places_[event.operation]);
      if (ways_.empty()) return report(event);
    }
    return std::nullopt;
  }

 private:
  bool open(std::size_t operation) {
    if (used_ == ~std::uint64_t{0}) return false;
    const auto place = static_cast<std::size_t>(std::countr_one(used_));
    used_ |= std::uint64_t{1} << place;
    open_[place] = &history_[operation];
    if (history_[operation].outcome == Operation::Outcome::unknown) {
      unknown_ |= std::uint64_t{1} << place;
    }
    places_[operation] = place;
    return true;
  }

  // The operation at `place` has acted by now: keeps the ways in which it has. In the order of how
  // many have acted, so that a way is met before those that it makes needless.
  void answer(std::size_t place) {
    const std::uint64_t mine = std::uint64_t{1} << place;
    Ways seen, next;
    std::deque<Way> work;
    for (const auto& [known, unknowns] : ways_) {
      for (const std::uint64_t unknown : unknowns) {
        const Way way = at_once({known.first, known.second | unknown});
        if (add(seen, way)) work.push_back(way);
      }
    }
    while (!work.empty()) {
      const Way way = work.front();
      work.pop_front();
      if ((way.acted & mine) != 0) {
        add(next, {way.state, way.acted & ~mine});
        continue;
      }
      for (std::uint64_t left = used_ & ~way.acted; left != 0; left &= left - 1) {
        const auto other = static_cast<std::size_t>(std::countr_zero(left));
        const auto state = act(*open_[other], way.state);
        if (!state) continue;
        const Way then = at_once({*state, way.acted | std::uint64_t{1} << other});
        if (add(seen, then)) work.push_back(then);
      }
    }
    ways_ = std::move(next);
    used_ &= ~mine;
  }

  // What can act here without a change of the value acts here: to wait would open no way more.
  Way at_once(Way way) const {
    for (std::uint64_t left = used_ & ~unknown_ & ~way.acted; left != 0; left &= left - 1) {
      const auto place = static_cast<std::size_t>(std::countr_zero(left));
      const Operation& operation = *open_[place];
      const bool changes = operation.kind == Operation::Kind::write &&
                           operation.outcome != Operation::Outcome::refused;
      if (!changes && act(operation, way.state)) way.acted |= std::uint64_t{1} << place;
    }
    return way;
  }

  // False if a way is known in which fewer of the unknown writes have acted, and else the same: it
  // can go on in every way that this one can.
  bool add(Ways& ways, Way way) const {
    const std::uint64_t unknown = way.acted & unknown_;
    auto& list = ways[{way.state, way.acted & ~unknown_}];
    const auto covers = [&](std::uint64_t other) { return (other & ~unknown) == 0; };
    if (std::any_of(list.begin(), list.end(), covers)) return false;
    std::erase_if(list, [&](std::uint64_t other) { return (unknown & ~other) == 0; });
    list.push_back(unknown);
    return true;
  }

  // The operations around the one that fits nowhere.
  std::string report(const Event& event) const {
    constexpr std::size_t kShown = 40;
    std::vector<Operation> before;
    for (const Operation& operation : history_) {
      if (operation.call <= event.when) before.push_back(operation);
    }
    const auto by_answer = [](const Operation& a, const Operation& b) {
      return a.answer < b.answer;
    };
    std::sort(before.begin(), before.end(), by_answer);
    const auto end = std::find_if(before.begin(), before.end(), [&](const Operation& operation) {
      return operation.answer > event.when;
    });
    const auto shown = std::min<std::ptrdiff_t>(kShown, end - before.begin());
    std::string text = "no linear order explains this history; the first that does not fit:\n";
    text += describe(history_[event.operation]);
    text += " what came before it, or was open:\n";
    for (auto at = end - shown; at != before.end(); ++at) text += describe(*at);
    return text;
  }

  const std::vector<Operation>& history_;
  Ways ways_;
  std::uint64_t used_ = 0;     // places of open operations
  std::uint64_t unknown_ = 0;  // ... of those whose outcome is unknown: they stay
  std::array<const Operation*, kOpenMax> open_{};
  std::vector<std::size_t> places_;  // by operation
};

}  // namespace

std::optional<std::string> check_linearizable(const std::vector<Operation>& history,
                                              Value initial) {
  return Judge(history, initial).run();
}

}  // namespace penstock::sim
