#include "server/background/pace.h"

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
  if (next_ > now) co_await clock_.sleep_until(next_);
  next_ = std::max(next_, now) + interval_;
  co_return !stopping_->load();
}

Progress::Progress(Clock& clock, std::string what, std::uint64_t total)
    : clock_(clock),
      what_(std::move(what)),
      total_(total),
      began_(clock.boot()),
      told_(began_) {}

Progress::~Progress() {
  if (was_told_) tell(clock_.boot());
}

void Progress::step(std::uint64_t count) {
  done_ += count;
  const BootTime now = clock_.boot();
  if (now - told_ < kTellEvery) return;
  was_told_ = true;
  tell(now);
}

void Progress::tell(BootTime now) {
  told_ = now;
  const double seconds = std::max(static_cast<double>((now - began_).count()) * 1e-6, 1e-6);
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(done_) / seconds);
  log_event(LogLevel::info, "background_progress",
            {{"what", what_},
             {"done", std::to_string(done_)},
             {"total", std::to_string(std::max(total_, done_))},
             {"per_second", std::to_string(rate)}});
}

}  // namespace penstock
