#include "server/background/background.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <functional>

#include "penstock/caught.h"
#include "penstock/log.h"
#include "penstock/wakeup.h"
#include "server/background/removal/bucket_sweep.h"
#include "server/background/removal/hint_worker.h"
#include "server/background/removal/orphan_sweep.h"
#include "server/background/removal/stray_rows.h"
#include "server/background/removal/tombstone_purge.h"
#include "server/background/removal/upload_sweep.h"

namespace penstock {
namespace {

struct Job {
  std::string name;
  Duration every;
  std::function<Task<>()> pass;
  std::function<Duration()> again{};  // how soon after a pass the next one may be wanted
  Wakeup wakeup{};
};

}  // namespace

struct BackgroundWork::State {
  explicit State(BackgroundContext given)
      : context(std::move(given)),
        hints(context),
        orphans(context),
        uploads(context),
        tombstones(context),
        buckets(context),
        rows(context) {
    const RemovalOptions& options = context.options;
    jobs.push_back({"hints", options.hints_every, [this] { return hints.pass(); }});
    jobs.push_back({"orphans", options.sweep_every, [this] { return orphans.pass(); }});
    jobs.push_back({"uploads", options.uploads_every, [this] { return uploads.pass(); },
                    [this] { return uploads_again(); }});
    jobs.push_back({"tombstones", options.tombstones_every, [this] { return tombstones.pass(); }});
    jobs.push_back({"buckets", options.buckets_every, [this] { return buckets.pass(); }});
    jobs.push_back({"rows", options.uploads_every, [this] { return rows.pass(); }});
  }

  Duration uploads_again() const {
    const RemovalOptions& options = context.options;
    return uploads.waits() ? options.roll_forward_after : options.uploads_every;
  }

  BackgroundContext context;
  HintWorker hints;
  OrphanSweep orphans;
  UploadSweep uploads;
  TombstonePurge tombstones;
  BucketSweep buckets;
  StrayRows rows;
  std::vector<Job> jobs;
  std::size_t running = 0;
  Wakeup ended;

  static Awaitable<void> run(std::shared_ptr<State> self, std::size_t index) {
    Job& job = self->jobs[index];
    Clock& clock = self->context.clock;
    const auto executor = co_await boost::asio::this_coro::executor;
    while (!self->context.stops()) {
      const BootTime began = clock.boot();
      Result<> done;
      try {
        self->context.membership.probe_suspects(executor);  // passes leave suspects out
        done = co_await job.pass();
      } catch (...) {
        done = error_of_exception(job.name);
      }
      if (!done) {
        log_event(LogLevel::info, "background_pass_incomplete",
                  {{"what", job.name}, {"reason", done.error().context}});
      }
      BootTime next = began + job.every;
      if (job.again) next = std::min<BootTime>(next, clock.boot() + job.again());
      if (!self->context.stops()) co_await job.wakeup.wait(clock, next);
    }
    --self->running;
    self->ended.notify();
  }
};

BackgroundWork::BackgroundWork(BackgroundContext context)
    : state_(std::make_shared<State>(std::move(context))) {}

BackgroundWork::~BackgroundWork() = default;

void BackgroundWork::start(Executor executor) {
  for (std::size_t i = 0; i < state_->jobs.size(); ++i) {
    ++state_->running;
    boost::asio::co_spawn(executor, State::run(state_, i), boost::asio::detached);
  }
}

void BackgroundWork::stop() {
  state_->context.stopping->store(true);
  for (Job& job : state_->jobs) job.wakeup.notify();
}

Awaitable<void> BackgroundWork::finish() {
  const auto state = state_;
  while (state->running > 0) {
    co_await state->ended.wait(state->context.clock,
                               state->context.clock.boot() + Duration(std::chrono::seconds(1)));
  }
}

BackgroundStatus BackgroundWork::status() const { return state_->context.board->read(); }

}  // namespace penstock
