#include "server/membership/map_learner.h"

#include "penstock/fan_out.h"
#include "penstock/limits.h"
#include "penstock/log.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kPause{10};

// `client` is held until the answer.
Task<SharedBytes> ask_for_map(std::shared_ptr<VolumeClient> client, Deadline deadline) {
  co_return co_await client->read_map(deadline);
}

}  // namespace

Task<> MapLearner::ask_all() {
  const auto executor = co_await boost::asio::this_coro::executor;
  const BootTime until = clock_.boot() + Duration(limits::kRegisterCall);
  FanOut<SharedBytes> calls;
  for (auto& client : membership_.volumes()) {
    calls.start(executor, ask_for_map(std::move(client), until));
  }
  co_await calls.wait_all(clock_, until);
  for (const auto& answer : calls.take()) {
    if (!answer || !*answer) continue;
    const SharedBytes& text = answer->value();
    if (text == nullptr || (looked_at_ != nullptr && *looked_at_ == *text)) continue;
    looked_at_ = text;
    auto map = ClusterMap::parse(*text);
    if (!map || map->epoch <= membership_.map()->epoch) continue;
    CO_CHECK(membership_.adopt(std::make_shared<const ClusterMap>(std::move(*map))));
  }
  co_return Result<>{};
}

Awaitable<void> MapLearner::learn() {
  if (!asking_.exchange(true)) {
    const auto asked = co_await ask_all();
    asking_.store(false);
    if (!asked) log_event(LogLevel::warn, "map_refused", {{"reason", asked.error().context}});
  }
  co_await clock_.sleep_until(clock_.boot() + kPause);
}

}  // namespace penstock
