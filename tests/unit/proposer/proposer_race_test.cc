// Proposers that race on one register over a network that loses, delays and doubles messages, with
// acceptors that restart: every update is applied once or not at all, and no read goes back.
#include <doctest/doctest.h>

#include <boost/asio/detached.hpp>
#include <set>

#include "penstock/log.h"
#include "tests/fake/register_cluster.h"

namespace penstock {
namespace {

const RegisterRef kLog = object_register("log");

// Appends its own name to the text: the value is the history of the register.
class AppendName final : public RegisterUpdate {
 public:
  AppendName(OpId op_id, std::string name) : op_id_(op_id), name_(std::move(name)) {}
  Task<Decision> decide(const Snapshot& current) override {
    Decision decision;
    decision.action = Decision::Action::write;
    decision.value.kind = ValueKind::object;
    decision.value.payload = (current.live() ? current.value->payload : "") + name_ + ";";
    co_return decision;
  }
  OpId op_id() const override { return op_id_; }

 private:
  OpId op_id_;
  std::string name_;
};

struct History {
  std::set<std::string> done;      // answered with success
  std::set<std::string> not_done;  // answered as known not to have happened
  std::size_t unknown = 0;
  std::string longest;  // read so far
  int reads = 0;
  int finished = 0;
};

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find(';', begin)) != std::string::npos; begin = end + 1) {
    names.push_back(text.substr(begin, end - begin));
  }
  return names;
}

Awaitable<void> writer(RegisterCluster* cluster, History* history, std::size_t process,
                       int updates) {
  for (int n = 0; n < updates; ++n) {
    const std::string name = std::to_string(process) + "." + std::to_string(n);
    Proposer& proposer = cluster->proposer(process);
    AppendName append(proposer.new_op_id(), name);
    auto result = co_await proposer.update(kLog, append, cluster->soon());
    if (result) {
      history->done.insert(name);
    } else if (result.error().code == Errc::unknown_outcome) {
      ++history->unknown;
    } else {
      history->not_done.insert(name);
    }
  }
  ++history->finished;
}

Awaitable<void> reader(RegisterCluster* cluster, History* history, std::size_t process,
                       int writers) {
  while (history->finished < writers) {
    const std::set<std::string> before = history->done;
    const std::string longest_before = history->longest;
    auto snapshot =
        co_await cluster->proposer(process).read(kLog, ReadWant::value, cluster->soon());
    if (snapshot) {
      ++history->reads;
      const std::string text = snapshot->live() ? snapshot->value->payload : "";
      const auto names = names_in(text);
      const std::set<std::string> seen(names.begin(), names.end());
      for (const std::string& name : before) CHECK(seen.contains(name));
      CHECK(text.substr(0, longest_before.size()) == longest_before);
      if (text.size() > history->longest.size()) history->longest = text;
    }
    const auto pause = Duration(static_cast<Duration::rep>(cluster->random.below(20'000)));
    co_await cluster->clock.sleep_until(cluster->clock.boot() + pause);
  }
}

Awaitable<void> restarter(RegisterCluster* cluster, const History* history, int writers) {
  while (history->finished < writers) {
    const auto pause =
        Duration(static_cast<Duration::rep>(200'000 + cluster->random.below(800'000)));
    co_await cluster->clock.sleep_until(cluster->clock.boot() + pause);
    FakeAcceptor& victim = *cluster->acceptors[cluster->random.below(cluster->acceptors.size())];
    victim.state = VolumeStatus::State::closed;
    const auto down = Duration(static_cast<Duration::rep>(cluster->random.below(300'000)));
    co_await cluster->clock.sleep_until(cluster->clock.boot() + down);
    victim.restart();
    victim.state = VolumeStatus::State::open;
  }
}

void make_hostile(RegisterCluster& cluster) {
  SeededRandom& random = cluster.random;
  const double loss = random.chance(0.3) ? 0 : static_cast<double>(random.below(20)) / 100;
  const double doubled = static_cast<double>(random.below(20)) / 100;
  const double slow = static_cast<double>(random.below(10)) / 100;
  for (const auto& acceptor : cluster.acceptors) {
    if (random.chance(0.3)) {
      acceptor->clock_offset = Duration(static_cast<Duration::rep>(random.below(100'000)));
    }
    acceptor->fate = [&random, loss, doubled, slow](VolumeId, RegisterCall, const RegisterKey&) {
      const auto delay = [&] {
        const auto us = random.chance(slow) ? random.below(600'000) : 100 + random.below(5'000);
        return Duration(static_cast<Duration::rep>(us));
      };
      Fate fate;
      fate.lose_request = random.chance(loss);
      fate.lose_reply = random.chance(loss);
      fate.twice = random.chance(doubled);
      fate.request_delay = delay();
      fate.reply_delay = delay();
      return fate;
    };
  }
}

struct Totals {
  std::size_t done = 0, unknown = 0, not_done = 0;
  int reads = 0;
};

void race(std::uint64_t seed, std::size_t replicas, std::size_t chain_max, Totals& totals) {
  CAPTURE(seed);
  const int writers = 3;
  RegisterCluster cluster(replicas, writers, seed);
  for (auto& process : cluster.processes) {
    process.proposer =
        std::make_unique<Proposer>(*process.membership, cluster.clock, cluster.random, chain_max);
  }
  make_hostile(cluster);
  History history;
  for (std::size_t process = 0; process < writers; ++process) {
    boost::asio::co_spawn(cluster.io, writer(&cluster, &history, process, 6),
                          boost::asio::detached);
  }
  boost::asio::co_spawn(cluster.io, reader(&cluster, &history, 0, writers), boost::asio::detached);
  boost::asio::co_spawn(cluster.io, reader(&cluster, &history, 2, writers), boost::asio::detached);
  boost::asio::co_spawn(cluster.io, restarter(&cluster, &history, writers), boost::asio::detached);
  cluster.settle_down();
  REQUIRE(history.finished == writers);
  for (const auto& acceptor : cluster.acceptors) acceptor->fate = nullptr;
  const auto last = cluster.read(kLog);
  REQUIRE(last);
  cluster.settle_down();
  const auto names = names_in(last->live() ? last->value->payload : "");
  const std::set<std::string> once(names.begin(), names.end());
  CHECK(once.size() == names.size());  // none twice
  for (const std::string& name : history.done) CHECK(once.contains(name));
  for (const std::string& name : history.not_done) CHECK(!once.contains(name));
  for (const auto& process : cluster.processes) CHECK(process.proposer->stragglers() == 0);
  totals.done += history.done.size();
  totals.unknown += history.unknown;
  totals.not_done += history.not_done.size();
  totals.reads += history.reads;
}
}  // namespace

// What fell off a chain is what an update may be written over: short chains show that far sooner.
TEST_CASE("racing proposers over a bad network apply every update once: 200 seeds") {
  set_log_level(LogLevel::error);
  for (const std::size_t chain_max : {limits::kChainMax, std::size_t{2}}) {
    CAPTURE(chain_max);
    Totals totals;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      race(seed, seed % 2 == 0 ? 3 : 5, chain_max, totals);
    }
    MESSAGE("chains of " << chain_max << ": done " << totals.done << ", unknown " << totals.unknown
                         << ", not done " << totals.not_done << ", reads " << totals.reads);
    CHECK(totals.done > 3000);
    CHECK(totals.reads > 2000);
  }
  set_log_level(LogLevel::info);
}

}  // namespace penstock
