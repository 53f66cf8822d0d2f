#include "server/membership/map_survey.h"

#include <set>
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

// Of the volumes of maps newer than `than`, those that are not in `held`.
std::vector<std::shared_ptr<VolumeClient>> not_asked(const std::vector<HeldMap>& held,
                                                     const MapSurvey::Reach& reach, Epoch than) {
  std::set<VolumeId> known;
  std::set<const ClusterMap*> looked_at;
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const HeldMap& each : held) known.insert(each.volume);
  for (const HeldMap& each : held) {
    if (!each.map || each.map->epoch <= than || !looked_at.insert(each.map.get()).second) continue;
    for (auto& client : reach(*each.map)) {
      if (known.insert(client->id()).second) clients.push_back(std::move(client));
    }
  }
  return clients;
}

}  // namespace

Awaitable<std::vector<HeldMap>> MapSurvey::ask_round(
    std::vector<std::shared_ptr<VolumeClient>> clients, const Parsed& before, Clock& clock,
    Deadline deadline) {
  const auto executor = co_await boost::asio::this_coro::executor;
  FanOut<SharedBytes> calls;
  for (const auto& client : clients) calls.start(executor, ask_for_map(client, deadline));
  co_await calls.wait_all(clock, deadline);
  const auto answers = calls.take();
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

Awaitable<std::vector<HeldMap>> MapSurvey::ask(std::vector<std::shared_ptr<VolumeClient>> clients,
                                               Clock& clock, Deadline deadline) {
  const Parsed before = std::exchange(parsed_, Parsed());
  co_return co_await ask_round(std::move(clients), before, clock, deadline);
}

Awaitable<std::vector<HeldMap>> MapSurvey::ask_newer(
    std::vector<std::shared_ptr<VolumeClient>> clients, Reach reach, Epoch than, Clock& clock,
    Duration patience) {
  const Parsed before = std::exchange(parsed_, Parsed());
  std::vector<HeldMap> held;
  for (int round = 0; round < kRoundsMax && (round == 0 || !clients.empty()); ++round) {
    const BootTime until = clock.boot() + patience;
    const auto heard = co_await ask_round(std::move(clients), before, clock, until);
    held.insert(held.end(), heard.begin(), heard.end());
    clients = not_asked(held, reach, than);
  }
  co_return held;
}

}  // namespace penstock
