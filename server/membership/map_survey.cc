#include "server/membership/map_survey.h"

#include <utility>

#include "penstock/fan_out.h"

namespace penstock {
namespace {

// `client` is held until the answer.
Task<SharedBytes> ask_for_map(std::shared_ptr<VolumeClient> client, Deadline deadline) {
  co_return co_await client->read_map(deadline);
}

std::shared_ptr<const ClusterMap> parse(const std::string& text) {
  auto map = ClusterMap::parse(text);
  return map ? std::make_shared<const ClusterMap>(std::move(*map)) : nullptr;
}

}  // namespace

Awaitable<std::vector<HeldMap>> MapSurvey::ask(std::vector<std::shared_ptr<VolumeClient>> clients,
                                               Clock& clock, Deadline deadline) {
  const auto executor = co_await boost::asio::this_coro::executor;
  FanOut<SharedBytes> calls;
  for (const auto& client : clients) calls.start(executor, ask_for_map(client, deadline));
  co_await calls.wait_all(clock, deadline);
  const auto answers = calls.take();
  const auto before = std::exchange(parsed_, {});
  std::vector<HeldMap> held;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    HeldMap& one = held.emplace_back();
    one.volume = clients[i]->id();
    if (!answers[i] || !*answers[i] || answers[i]->value() == nullptr) continue;
    const std::string& text = *answers[i]->value();
    if (!text.empty() && !parsed_.contains(text)) {
      const auto known = before.find(text);
      parsed_.emplace(text, known == before.end() ? parse(text) : known->second);
    }
    if (!text.empty()) one.map = parsed_.at(text);
    one.answered = text.empty() || one.map != nullptr;
  }
  co_return held;
}

}  // namespace penstock
