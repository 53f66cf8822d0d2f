#include "server/membership/map_install.h"

#include <algorithm>
#include <map>

#include "penstock/fan_out.h"
#include "penstock/planted.h"
#include "server/membership/replica_set.h"

namespace penstock {
namespace {

using Clients = std::vector<std::shared_ptr<VolumeClient>>;

// ---- one volume each; the client is held until it has answered

Task<SharedBytes> ask_map(std::shared_ptr<VolumeClient> client, Deadline deadline) {
  CO_TRY(text, co_await client->read_map(deadline));
  if (text == nullptr) co_return fail(Errc::corrupt, "a volume without a map");
  co_return text;
}

Task<> ask_adopt(std::shared_ptr<VolumeClient> client, std::shared_ptr<const AdoptRequest> request,
                 Deadline deadline) {
  co_return co_await client->adopt(std::move(request), deadline);
}

Task<JoinState> ask_join_state(std::shared_ptr<VolumeClient> client, Deadline deadline) {
  co_return co_await client->read_join_state(deadline);
}

template <class T>
Task<typename FanOut<T>::Answers> all_of(FanOut<T> calls, Clock& clock, Deadline deadline) {
  co_await calls.wait_all(clock, deadline);
  co_return calls.take();
}

template <class T>
Error error_of(const std::optional<Result<T>>& answer) {
  return answer ? answer->error() : fail(Errc::timeout, "no answer in time");
}

bool is_busy(const std::pair<VolumeId, Error>& failed) { return failed.second.code == Errc::busy; }

class Install {
 public:
  Install(std::shared_ptr<const ClusterMap> map, Clock& clock, Deadline deadline)
      : map_(std::move(map)), clock_(clock), deadline_(deadline) {}

  Task<Installed> run(Clients clients) {
    const auto executor = co_await boost::asio::this_coro::executor;
    auto text = std::make_shared<const std::string>(map_->to_json());
    AdoptRequest request{std::move(text), epochs_of(*map_), JoinState()};
    CO_TRY(joining, co_await split_off_joining(executor, clients));
    CO_CHECK(co_await adopt(executor, std::move(clients), request));
    if (!joining.empty() && old_lists_adopted()) {
      CO_TRY(state, co_await take_over(executor));
      request.join = std::move(state);
      CO_CHECK(co_await adopt(executor, std::move(joining), std::move(request)));
    } else {
      const Error why = fail(Errc::unavailable, "too few volumes to take horizon and fences from");
      for (const auto& client : joining) installed_.failed.emplace_back(client->id(), why);
    }
    installed_.reached = reached();
    co_return std::move(installed_);
  }

 private:
  // Takes those that join out of `clients`, and those that do not answer.
  Task<Clients> split_off_joining(Executor executor, Clients& clients) {
    FanOut<SharedBytes> calls;
    for (const auto& client : clients) calls.start(executor, ask_map(client, deadline_));
    CO_TRY(answers, co_await all_of(std::move(calls), clock_, deadline_));
    Clients joined, joining;
    std::map<std::string_view, Result<ClusterMap>> parsed;  // mostly all hold the same map
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (!answers[i] || !*answers[i]) {
        installed_.failed.emplace_back(clients[i]->id(), error_of(answers[i]));
      } else {
        const std::string& text = *answers[i]->value();
        if (!parsed.contains(text)) parsed.emplace(text, ClusterMap::parse(text));
        const auto& own = parsed.at(text);
        if (own && forks(*own)) {
          const Error why = fail(Errc::stale_epoch, "it holds another map of this epoch");
          installed_.failed.emplace_back(clients[i]->id(), why);
          continue;
        }
        // Fresh volumes hold the map of their format, which can be read, or none: those join unless
        // this is the first map of all.
        const bool fresh = text.empty() && map_->epoch > Epoch{1};
        const bool has_joined = !fresh && (!own || own->find(clients[i]->id()) != nullptr);
        (has_joined ? joined : joining).push_back(clients[i]);
      }
    }
    clients = std::move(joined);
    co_return joining;
  }

  Task<> adopt(Executor executor, Clients clients, AdoptRequest request) {
    const auto shared = std::make_shared<const AdoptRequest>(std::move(request));
    FanOut<void> calls;
    for (const auto& client : clients) {
      calls.start(executor, ask_adopt(client, shared, deadline_));
    }
    CO_TRY(answers, co_await all_of(std::move(calls), clock_, deadline_));
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (answers[i] && *answers[i]) {
        adopted_[clients[i]->id()] = clients[i];
        installed_.adopted.push_back(clients[i]->id());
      } else {
        installed_.failed.emplace_back(clients[i]->id(), error_of(answers[i]));
      }
    }
    co_return Result<>{};
  }

  // The highest of all that have adopted the map; a majority of each old list is among them.
  Task<JoinState> take_over(Executor executor) {
    FanOut<JoinState> calls;
    for (const auto& [id, client] : adopted_) {
      calls.start(executor, ask_join_state(client, deadline_));
    }
    CO_TRY(answers, co_await all_of(std::move(calls), clock_, deadline_));
    JoinState state;
    std::map<BucketId, BucketNumber> fences;
    for (const auto& answer : answers) {
      if (!answer || !*answer) co_return error_of(answer);  // it may be one of the majority
      if (holds(Rule::joined_horizon)) {
        state.horizon = std::max(state.horizon, answer->value().horizon);
      }
      for (const auto& [bucket, number] : answer->value().fences) {
        fences[bucket] = std::max(fences[bucket], number);
      }
    }
    if (holds(Rule::joined_fences)) state.fences.assign(fences.begin(), fences.end());
    co_return state;
  }

  // One epoch is one map. Its groups may have the same lists, and then a volume sees no difference.
  bool forks(const ClusterMap& own) const {
    const bool other = own.epoch == map_->epoch && own.digest != map_->digest;
    return other && holds(Rule::map_kept);
  }
  bool majority_of(const std::vector<VolumeId>& list) const {
    return has_majority(list, [this](VolumeId id) { return adopted_.contains(id); });
  }
  bool old_lists_adopted() const {
    return std::all_of(map_->groups.begin(), map_->groups.end(),
                       [this](const MapGroup& group) { return majority_of(group.replicas); });
  }
  bool reached() const {
    return std::all_of(map_->groups.begin(), map_->groups.end(), [this](const MapGroup& group) {
      return majority_of(group.replicas) && (group.joint.empty() || majority_of(group.joint));
    });
  }

  const std::shared_ptr<const ClusterMap> map_;
  Clock& clock_;
  const Deadline deadline_;
  std::map<VolumeId, std::shared_ptr<VolumeClient>> adopted_;
  Installed installed_;
};

}  // namespace

bool Installed::is_settled() const {
  return reached && std::none_of(failed.begin(), failed.end(), is_busy);
}

Task<Installed> install_map(std::shared_ptr<const ClusterMap> map,
                            std::vector<std::shared_ptr<VolumeClient>> clients, Clock& clock,
                            Deadline deadline) {
  Install install(std::move(map), clock, deadline);
  co_return co_await install.run(std::move(clients));
}

}  // namespace penstock
