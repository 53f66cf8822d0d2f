#include "gateway/process/map_start.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "penstock/log.h"
#include "server/membership/map_survey.h"

namespace penstock {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(20);
constexpr Duration kAsk = std::chrono::milliseconds(500);
constexpr Duration kAskSource = std::chrono::seconds(2);
constexpr Duration kHeadAlone = std::chrono::seconds(2);

class Search {
 public:
  explicit Search(MapStart start) : start_(std::move(start)) {}

  Task<std::shared_ptr<const ClusterMap>> run(Deadline deadline) {
    while (true) {
      co_await ask_source();
      if (start_.servers.empty() && head_ && !head_->has_value() && !is_away()) {
        co_return head_->error();
      }
      if (start_.servers.empty() && head_ && head_->has_value() && !head()) {
        const std::string& unreadable = (*head_)->unreadable;
        if (unreadable.empty()) {
          co_return fail(Errc::not_found,
                         start_.source->name() + " holds no map: `penstock ring make` makes one");
        }
        (void)co_await find_servers();
        if (start_.servers.empty()) co_return fail(Errc::corrupt, unreadable);
      }
      co_await ask_volumes();
      const MapVerdict verdict = judge();
      if (verdict.follow && (verdict.majority || counts_alone(*verdict.follow))) {
        tell(verdict);
        co_return verdict.follow;
      }
      if (start_.clock.boot() >= deadline) co_return why(verdict);
      co_await start_.clock.sleep_until(start_.clock.boot() + kLook);
    }
  }

 private:
  std::shared_ptr<const ClusterMap> head() const {
    return head_ && head_->has_value() ? (*head_)->map : nullptr;
  }
  MapVerdict judge() const {
    if (!head_ || !head_->has_value()) return judge_maps(nullptr, false, held_);
    return judge_maps((*head_)->map, true, held_, (*head_)->unreadable);
  }
  bool is_away() const {
    const Errc code = head_->error().code;
    return code == Errc::unavailable || code == Errc::timeout;
  }

  // Until it has answered; one that is away is asked again.
  Awaitable<void> ask_source() {
    if (start_.source == nullptr || (head_ && (head_->has_value() || !is_away()))) co_return;
    head_ = co_await start_.source->read(start_.clock.boot() + kAskSource);
    if (const auto map = head()) {
      add(*map);
      alone_from_ = start_.clock.boot() + kHeadAlone;
    }
  }
  // The volumes have had the time to say that it is not so.
  bool counts_alone(const ClusterMap& map) const {
    return alone_from_ && start_.clock.boot() >= *alone_from_ && !is_contradicted(map, held_);
  }

  // Those that announce themselves, where the source has no map to name them.
  Task<> find_servers() {
    CO_TRY(announced, co_await start_.source->announced(start_.clock.boot() + kAskSource));
    for (const Announcement& server : announced) start_.servers.push_back(server.address);
    co_return Result<>{};
  }

  void add(const ClusterMap& map) {
    for (const MapVolume& volume : map.volumes) places_.emplace(volume.id, volume.address);
  }

  // Those of the servers, which are where they say, and those that maps name.
  Awaitable<void> ask_volumes() {
    for (const std::string& address : start_.servers) {
      const auto volumes = start_.peers.server(address)->volumes();
      if (!volumes) continue;
      for (const VolumeId id : *volumes) places_[id] = address;
    }
    std::vector<std::shared_ptr<VolumeClient>> clients;
    for (const auto& [id, address] : places_) clients.push_back(start_.peers.volume(id, address));
    held_ = co_await survey_.ask(std::move(clients), start_.clock, start_.clock.boot() + kAsk);
    for (const HeldMap& each : held_) {
      if (each.map) add(*each.map);
    }
  }

  static void tell(const MapVerdict& verdict) {
    if (verdict.trouble == MapTrouble::none) return;
    log_event(LogLevel::error, "map_trouble",
              {{"what", std::string(to_string(verdict.trouble))}, {"meaning", verdict.meaning}});
  }

  Error why(const MapVerdict& verdict) const {
    std::string text = "no map was found";
    if (head_ && !head_->has_value()) text += ": " + head_->error().context;
    if (start_.servers.empty()) text += "; --servers names servers to ask for it";
    for (const std::string& address : start_.servers) {
      const auto server = start_.peers.server(address);
      if (!server->volumes()) text += "; " + address + ": " + server->status(VolumeId{}).reason;
    }
    if (!verdict.meaning.empty()) text += "; " + verdict.meaning;
    return fail(Errc::unavailable, std::move(text));
  }

  MapStart start_;
  std::optional<Result<MapHead>> head_;  // nullopt: not asked, or there is no source
  std::optional<BootTime> alone_from_;   // then the head counts by itself; nullopt: there is none
  std::map<VolumeId, std::string> places_;
  std::vector<HeldMap> held_;
  MapSurvey survey_;
};

}  // namespace

Task<std::shared_ptr<const ClusterMap>> find_map(MapStart start, Deadline deadline) {
  Search search(std::move(start));
  co_return co_await search.run(deadline);
}

}  // namespace penstock
