#include "server/background/removal/pace.h"

#include <algorithm>

#include "penstock/log.h"

namespace penstock {
namespace {
constexpr Duration kTellEvery = std::chrono::seconds(30);
}

Pace::Pace(const BackgroundContext& context)
    : clock_(context.clock),
      stopping_(context.stopping),
      interval_(Duration(std::chrono::seconds(1)) /
                std::max<std::uint32_t>(context.options.steps_per_second, 1)) {}

Awaitable<bool> Pace::turn() {
  const BootTime now = clock_.boot();
  const BootTime mine = std::max(next_, now);
  next_ = mine + interval_;
  if (mine > now) co_await clock_.sleep_until(mine);
  co_return !stopping_->load();
}

Progress::Progress(const BackgroundContext& context, std::string what, std::uint64_t total)
    : clock_(context.clock),
      board_(context.board),
      what_(std::move(what)),
      total_(total),
      began_(clock_.boot()),
      told_(began_) {
  show(began_, false);
}

Progress::~Progress() {
  const BootTime now = clock_.boot();
  show(now, true);
  if (was_told_) tell(now);
}

void Progress::step(std::uint64_t count) {
  done_ += count;
  const BootTime now = clock_.boot();
  show(now, false);
  if (now - told_ < kTellEvery) return;
  was_told_ = true;
  tell(now);
}

JobProgress Progress::figures(BootTime now) const {
  const double seconds = std::max(static_cast<double>((now - began_).count()) * 1e-6, 1e-6);
  JobProgress job;
  job.done = done_;
  job.total = std::max(total_, done_);
  job.per_second = done_ == 0 ? 0 : static_cast<double>(done_) / seconds;
  return job;
}

void Progress::show(BootTime now, bool ended) {
  JobProgress job = figures(now);
  job.running = !ended;
  job.since = ended ? now : began_;
  board_->change([this, job](BackgroundStatus& status) { status.jobs[what_] = job; });
}

void Progress::tell(BootTime now) {
  told_ = now;
  const JobProgress job = figures(now);
  log_event(LogLevel::info, "background_progress",
            {{"what", what_},
             {"done", std::to_string(job.done)},
             {"total", std::to_string(job.total)},
             {"per_second", std::to_string(static_cast<std::uint64_t>(job.per_second))}});
}

}  // namespace penstock
