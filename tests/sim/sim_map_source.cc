#include "tests/sim/sim_map_source.h"

#include <utility>

namespace penstock::sim {
namespace {

constexpr Duration kAnswer = std::chrono::milliseconds(3);
constexpr Duration kWatch = std::chrono::milliseconds(20);  // until a change is told

}  // namespace

class SimMapSource::Handle final : public MapSource {
 public:
  Handle(SimMapSource& source, Clock& clock, std::size_t half)
      : source_(source), clock_(clock), half_(half) {}

  std::string name() const override { return "simulated"; }

  Task<MapHead> read(Deadline deadline) override {
    CO_CHECK(co_await reach());
    const MapHead head = source_.head(half_);
    CO_CHECK(co_await answer(deadline));
    co_return head;
  }
  Task<MapRevision> replace(std::shared_ptr<const ClusterMap> map, MapRevision expected,
                            Deadline deadline) override {
    CO_CHECK(co_await reach());
    auto replaced = source_.replace(std::move(map), expected, half_);
    CO_CHECK(co_await answer(deadline));
    co_return replaced;
  }
  Task<MapHead> wait_for_change(MapRevision seen, Deadline deadline) override {
    while (clock_.boot() < deadline) {
      CO_CHECK(co_await reach());
      const MapHead head = source_.head(half_);
      if (source_.state == State::sound && head.revision != seen) co_return head;
      co_await clock_.sleep_until(deadline.capped(clock_.boot() + kWatch));
    }
    co_return fail(Errc::timeout, "the map is the same");
  }

  // As a file: nothing is announced, and nobody has a role.
  bool keeps_announcements() const override { return false; }
  Task<> announce(Announcement, Deadline) override { co_return Result<>{}; }
  Task<std::vector<Announcement>> announced(Deadline) override {
    co_return std::vector<Announcement>();
  }
  Task<> drive(std::string, Deadline) override { co_return Result<>{}; }
  Task<> resign(Deadline) override { co_return Result<>{}; }

 private:
  Task<> reach() {
    co_await clock_.sleep_until(clock_.boot() + kAnswer);
    if (source_.state == State::away) co_return fail(Errc::unavailable, "connection refused");
    co_return Result<>{};
  }
  Task<> answer(Deadline deadline) {
    while (source_.state == State::stalled) {
      if (clock_.boot() >= deadline) co_return fail(Errc::timeout, "no answer in time");
      co_await clock_.sleep_until(deadline.capped(clock_.boot() + kWatch));
    }
    co_return Result<>{};
  }

  SimMapSource& source_;
  Clock& clock_;
  const std::size_t half_;
};

SimMapSource::SimMapSource(SimTime& time, std::shared_ptr<const ClusterMap> first) : time_(time) {
  past_.push_back(first);
  set(std::move(first), 0);
}

void SimMapSource::put_back(std::shared_ptr<const ClusterMap> map, std::size_t half) {
  kept_its_word_ = false;
  set(std::move(map), half);
}

void SimMapSource::set(std::shared_ptr<const ClusterMap> map, std::size_t half) {
  MapHead& head = halves_[forked_ ? half : 0];
  head.revision = map ? std::to_string(++changes_) : "";
  head.map = std::move(map);
  time_.trace(changes_);
}

void SimMapSource::fork() {
  halves_[1] = halves_[0];
  forked_ = true;
  kept_its_word_ = false;
}

void SimMapSource::join(std::size_t winner) {
  halves_[0] = head(winner);
  forked_ = false;
}

std::unique_ptr<MapSource> SimMapSource::open(Clock& clock, std::size_t half) {
  return std::make_unique<Handle>(*this, clock, half);
}

Result<MapRevision> SimMapSource::replace(std::shared_ptr<const ClusterMap> map,
                                          const MapRevision& expected, std::size_t half) {
  if (expected != head(half).revision) return fail(Errc::busy, "changed meanwhile");
  past_.push_back(map);
  set(std::move(map), half);
  return head(half).revision;
}

}  // namespace penstock::sim
