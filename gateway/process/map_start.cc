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
constexpr Duration kSourceAlone = std::chrono::seconds(2);  // then its map counts by itself

class Search {
 public:
  explicit Search(MapStart start)
      : start_(std::move(start)), source_until_(start_.clock.boot() + kSourceAlone) {}

  Task<std::shared_ptr<const ClusterMap>> run(Deadline deadline) {
    while (true) {
      co_await ask_source();
      if (start_.servers.empty() && head_ && !head_->has_value() && !is_away()) {
        co_return head_->error();
      }
      if (start_.servers.empty() && head_ && head_->has_value() && !head()) {
        co_return fail(Errc::not_found,
                       start_.source->name() + " holds no map: `penstock ring make` makes one");
      }
      co_await ask_volumes();
      const MapVerdict verdict = judge_maps(head(), head_ && head_->has_value(), held_);
      const bool late = start_.clock.boot() >= source_until_;
      if (verdict.follow && (verdict.majority || late)) {
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
  bool is_away() const {
    const Errc code = head_->error().code;
    return code == Errc::unavailable || code == Errc::timeout;
  }

  // Until it has answered; one that is away is asked again.
  Awaitable<void> ask_source() {
    if (start_.source == nullptr || (head_ && (head_->has_value() || !is_away()))) co_return;
    head_ = co_await start_.source->read(start_.clock.boot() + kAskSource);
    if (const auto map = head()) add(*map);
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

  const MapStart start_;
  const BootTime source_until_;
  std::optional<Result<MapHead>> head_;  // nullopt: not asked, or there is no source
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
