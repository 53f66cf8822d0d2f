#include "gateway/process/clock_watch.h"

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <mutex>
#include <utility>
#include <vector>

#include "gateway/server_description.h"
#include "penstock/caught.h"
#include "penstock/fan_out.h"
#include "penstock/limits.h"
#include "penstock/log.h"

namespace penstock {
namespace {

using Samples = std::vector<Metrics::Sample>;

constexpr ReportThrown report_end{"the look at the servers' clocks"};

double seconds(Duration offset) { return std::chrono::duration<double>(offset).count(); }

// The server's clock less ours, as of the middle of the call.
Task<Duration> ask(std::shared_ptr<RemoteServer> server, Clock* clock, Deadline deadline) {
  const BootTime asked = clock->boot();
  CO_TRY(text, co_await server->describe(deadline));
  const Duration round_trip = clock->boot() - asked;
  const WallTime now = clock->wall();
  CO_TRY(told, read_description(text));
  if (told.wall == WallTime{}) co_return fail(Errc::corrupt, "a server without a clock");
  co_return told.wall - (now - round_trip / 2);
}

}  // namespace

struct ClockWatch::State {
  State(const RemoteServers& all, Clock& own, bool serves)
      : servers(all), clock(own), is_server(serves) {}

  // True: every server has answered.
  Task<bool> look() {
    const auto executor = co_await boost::asio::this_coro::executor;
    const Deadline until = clock.boot() + Duration(limits::kNoProgress);
    const auto asked = servers.servers();
    FanOut<Duration> calls;
    for (const auto& server : asked) calls.start(executor, ask(server, &clock, until));
    co_await calls.wait_all(clock, until);
    const auto answers = calls.take();
    std::vector<ClockOffset> offsets;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (answers[i] && *answers[i]) offsets.push_back({asked[i]->address(), answers[i]->value()});
    }
    const bool all = offsets.size() == asked.size();
    tell(judge_clocks(std::move(offsets), is_server));
    co_return all;
  }

  void tell(ClockReport now) {
    const std::string lines = clock_lines(now);
    const bool was_well = well;
    well = lines.empty();
    {
      const std::lock_guard lock(mutex);
      report = std::move(now);
    }
    if (was_well && !well) log_event(LogLevel::warn, "clocks_off", {{"found", lines}});
    if (!was_well && well) log_event(LogLevel::info, "clocks_right");
  }

  static Awaitable<void> run(std::shared_ptr<State> self) {
    while (!self->stopping) {
      const Result<bool> all = co_await self->look();
      if (self->stopping) break;
      const bool whole = all && *all;
      const Duration pause =
          whole ? Duration(limits::kClockLook) : Duration(limits::kClockLookAgain);
      co_await self->clock.sleep_until(self->clock.boot() + pause);
    }
  }

  const RemoteServers& servers;
  Clock& clock;
  const bool is_server;
  std::atomic<bool> stopping{false};
  bool well = true;          // as told last
  mutable std::mutex mutex;  // guards the next one
  ClockReport report;
};

ClockWatch::ClockWatch(const RemoteServers& servers, Clock& clock, bool is_server)
    : state_(std::make_shared<State>(servers, clock, is_server)) {}

ClockWatch::~ClockWatch() { stop(); }

void ClockWatch::start(Executor executor) {
  boost::asio::co_spawn(executor, State::run(state_), report_end);
}

void ClockWatch::stop() { state_->stopping = true; }

ClockReport ClockWatch::report() const {
  const std::lock_guard lock(state_->mutex);
  return state_->report;
}

void ClockWatch::add_collectors(Metrics& metrics) const {
  metrics.add_collector(Metrics::Kind::gauge, "penstock_clock_offset_seconds",
                        "How far this process's clock is ahead of what most servers' clocks say.",
                        [this] {
                          const ClockReport now = report();
                          return Samples{{{}, seconds(now.own.value_or(Duration{}))}};
                        });
  metrics.add_collector(Metrics::Kind::gauge, "penstock_peer_clock_offset_seconds",
                        "The same of each other server.", [this] {
                          const ClockReport now = report();
                          Samples samples;
                          for (const ClockOffset& peer : now.peers) {
                            samples.push_back({{{"peer", peer.address}}, seconds(now.apart(peer))});
                          }
                          return samples;
                        });
}

}  // namespace penstock
