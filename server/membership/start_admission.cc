#include "server/membership/start_admission.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <functional>
#include <utility>

#include "penstock/fan_out.h"
#include "penstock/log.h"
#include "penstock/planted.h"

namespace penstock {
namespace {

constexpr Duration kCallPatience = std::chrono::milliseconds(500);
constexpr Duration kRestPatience = std::chrono::milliseconds(250);  // for those that answer late
// For peers beyond those that are enough, since enough are there: time to connect to all that are
// there, too. Machines that boot together do not come at the same moment.
constexpr Duration kMorePatience = Duration(limits::kConnectTime);
constexpr Duration kPauseMin = std::chrono::milliseconds(20);
constexpr Duration kPauseMax = std::chrono::milliseconds(200);
constexpr Duration kLaterPause = std::chrono::seconds(1);  // when all that is left is to be told
constexpr std::size_t kNamesMax = 6;                       // of peers, in a text

// One volume says as much as any other.
bool is_even(const AdmissionQuorum& quorum) {
  const std::uint64_t one = quorum.weights.empty() ? 1 : quorum.weights.begin()->second;
  return std::all_of(quorum.weights.begin(), quorum.weights.end(),
                     [one](const auto& entry) { return entry.second == one; });
}

// "3 of 5 other volumes", or of hosts where a volume of one says less than one of another.
std::string parts_text(const AdmissionQuorum& quorum) {
  constexpr std::uint64_t kDomain = AdmissionQuorum::kDomain;
  if (is_even(quorum)) {
    const std::uint64_t one = quorum.weights.empty() ? 1 : quorum.weights.begin()->second;
    return std::to_string((quorum.enough + one - 1) / one) + " of " +
           std::to_string(quorum.weights.size()) + " other volumes";
  }
  std::uint64_t total = 0;
  for (const auto& [id, weight] : quorum.weights) total += weight;
  return "the volumes of " + std::to_string((quorum.enough + kDomain - 1) / kDomain) + " of " +
         std::to_string((total + kDomain / 2) / kDomain) + " other hosts";
}

}  // namespace

StartAdmission::StartAdmission(AdmissionParts parts) : parts_(std::move(parts)) {
  if (parts_.map) take_map(parts_.map->to_json());
}

// ---- one peer

Task<StartAdmission::Heard> StartAdmission::ask(std::shared_ptr<VolumeClient> peer, VolumeId id,
                                                std::uint64_t map, Deadline deadline) {
  Heard heard;
  CO_TRY(starts, co_await peer->read_note(starts_note(id), deadline));
  CO_TRY(failure, co_await peer->read_note(failure_note(id), deadline));
  heard.starts = std::move(starts);
  heard.failure = std::move(failure);
  const bool other = heard.failure.map != 0 && heard.failure.map != map;
  if (!other) co_return heard;
  CO_TRY(text, co_await peer->read_map(deadline));
  heard.map = std::move(text);
  co_return heard;
}

Task<> StartAdmission::tell(std::shared_ptr<VolumeClient> peer, std::string name, std::string bytes,
                            Deadline deadline) {
  co_return co_await peer->put_note(std::move(name), std::move(bytes), deadline);
}

void StartAdmission::judge(const MapVolume& peer, const Heard& heard) {
  const std::uint64_t own = parts_.volume->start();
  // A peer that is asked again may have noted this very start meanwhile.
  const bool own_start = !parts_.process.empty() && heard.starts.bytes == own_note();
  if (heard.starts.bytes && !own_start) {
    const auto seen = noted_starts(*heard.starts.bytes);
    if (!seen || *seen >= own) {
      return refuse("it is an old copy: this would be its start number " + std::to_string(own) +
                    ", but " + peer.name + " has seen number " + *heard.starts.bytes);
    }
  }
  if (heard.failure.bytes && !parts_.boot_id.empty() && *heard.failure.bytes == parts_.boot_id) {
    return refuse("it failed since the machine was booted; boot again or replace it (" + peer.name +
                  " has noted it)");
  }
  if (heard.map && holds(Rule::newest_peers)) take_map(*heard.map);
  Peer& known = peers_[peer.id];
  known.map = heard.map ? map_hash(*heard.map) : heard.failure.map;
  known.asked = true;
}

std::string StartAdmission::own_note() const {
  return starts_text(parts_.volume->start(), parts_.process);
}

// A peer that noted another start knows of a copy that was faster. One that is admitted stays:
// enough others have noted that it is the one.
void StartAdmission::judge_told(VolumeId peer, const Result<>& answer, bool Peer::*told) {
  if (answer) peers_[peer].*told = true;
  if (answer || answer.error().code != Errc::busy || told != &Peer::started) return;
  if (admitted_) {
    if (std::exchange(peers_[peer].disputes, true)) return;
    log_event(LogLevel::error, "volume_start_disputed",
              {{"volume", hex_name(parts_.volume->id().value)},
               {"start", std::to_string(parts_.volume->start())},
               {"reason", "volume " + hex_name(peer.value) +
                              " has noted another start: two copies of it were started, or this "
                              "is the older one; end it and look which one is right"}});
    return;
  }
  refuse("another copy of it has started as well: a peer has noted another start than number " +
         std::to_string(parts_.volume->start()));
}

void StartAdmission::refuse(std::string why) {
  if (refused_) return;
  refused_ = why;
  parts_.volume->refuse(std::move(why));
}

// ---- the maps

void StartAdmission::take_map(const std::string& text) {
  const std::uint64_t hash = map_hash(text);
  if (text.empty() || maps_.contains(hash)) return;
  auto map = ClusterMap::parse(text);
  auto& known = maps_[hash];
  if (!map) return;
  AdmissionQuorum quorum = admission_quorum(*map, parts_.volume->id());
  known = std::make_unique<Known>(Known{hash, std::move(*map), std::move(quorum)});
}

void StartAdmission::take_own_map() {
  const std::uint64_t hash = parts_.volume->map_hash();
  if (hash == own_hash_) return;
  own_hash_ = hash;
  rounds_ = 0;
  const std::string text = parts_.volume->map();
  const auto own = ClusterMap::parse(text);
  own_names_ = own && own->find(parts_.volume->id()) != nullptr;
  own_unreadable_ = !text.empty() && !own;
  take_map(text);
}

// A volume without a map asks nobody, whatever the process follows.
void StartAdmission::take_followed_map() {
  if (!parts_.followed || !own_names_) return;
  auto map = parts_.followed();
  if (map == nullptr || map == followed_) return;
  followed_ = std::move(map);
  const std::string text = followed_->to_json();
  followed_hash_ = map_hash(text);
  take_map(text);
}

// Does it count for certain, so that older ones do not?
bool StartAdmission::counts(const Known& known) const {
  if (parts_.alone) return true;  // this process alone changes the map
  if (followed_ && known.hash == followed_hash_) return true;
  if (admitted_ && !parts_.volume->waits() && known.hash == own_hash_) return true;
  const auto holds_it = [&](VolumeId id) {
    const auto peer = peers_.find(id);
    const auto held = peer == peers_.end() ? maps_.end() : maps_.find(peer->second.map);
    if (held == maps_.end() || !held->second) return false;
    return held->first == known.hash || held->second->map.epoch > known.map.epoch;
  };
  if (known.map.find(parts_.volume->id()) != nullptr) {
    std::uint64_t held = 0;
    for (const auto& [id, weight] : known.quorum.weights) held += holds_it(id) ? weight : 0;
    return is_enough(known, held);
  }
  const auto& all = known.map.volumes;
  const auto number = std::count_if(all.begin(), all.end(),
                                    [&](const MapVolume& volume) { return holds_it(volume.id); });
  return 2 * static_cast<std::size_t>(number) > all.size();
}

StartAdmission::MayCount StartAdmission::may_count() const {
  MayCount maps;
  for (const auto& [hash, known] : maps_) {
    if (known) maps.push_back(known.get());
  }
  std::stable_sort(maps.begin(), maps.end(),
                   [](const Known* a, const Known* b) { return a->map.epoch > b->map.epoch; });
  const auto is_last = [this](const Known* known) {
    return !holds(Rule::peers_of_each_map) || counts(*known);
  };
  const auto last = std::find_if(maps.begin(), maps.end(), is_last);
  if (last == maps.end()) return maps;
  maps.erase(last + 1, maps.end());
  const Known* const counted = maps.back();  // and no other one of its epoch
  std::erase_if(maps, [counted](const Known* known) {
    return known != counted && known->map.epoch == counted->map.epoch;
  });
  return maps;
}

// Once it is admitted, of maps that cannot count any more. What is heard again is taken again.
void StartAdmission::forget_maps() {
  std::set<std::uint64_t> kept;
  for (const Known* known : may_count()) kept.insert(known->hash);
  std::erase_if(maps_, [&kept](const auto& entry) { return !kept.contains(entry.first); });
}

bool StartAdmission::is_named() const {
  const MayCount maps = may_count();
  return std::any_of(maps.begin(), maps.end(), [this](const Known* known) {
    return known->map.find(parts_.volume->id()) != nullptr;
  });
}

// One that held an older map may hold a newer one now.
bool StartAdmission::wants_again(const Peer& peer, const MayCount& maps) const {
  if (maps.size() < 2) return false;
  const auto held = maps_.find(peer.map);
  const bool known = held != maps_.end() && held->second;
  return !known || held->second->map.epoch < maps.front()->map.epoch;
}

std::vector<MapVolume> StartAdmission::peers() const {
  std::vector<MapVolume> all;
  std::set<VolumeId> named;
  for (const Known* known : may_count()) {
    for (const MapVolume& peer : known->quorum.peers) {
      if (named.insert(peer.id).second) all.push_back(peer);
    }
  }
  return all;
}

// ---- all of them

std::uint64_t StartAdmission::weight(const Known& known, bool Peer::*what,
                                     const std::set<VolumeId>& also) const {
  std::uint64_t sum = 0;
  for (const auto& [id, weight] : known.quorum.weights) {
    const auto peer = peers_.find(id);
    const bool counts = also.contains(id) || (peer != peers_.end() && peer->second.*what);
    sum += counts ? weight : 0;
  }
  return sum;
}

// More than enough may be there and know better: they get the time to say so.
bool StartAdmission::is_enough(const Known& known, std::uint64_t weight) const {
  if (weight >= known.quorum.majority) return true;
  return weight >= known.quorum.enough && known.patient_until &&
         parts_.clock.boot() >= *known.patient_until;
}

void StartAdmission::begin_patience() {
  for (const auto& [hash, known] : maps_) {
    if (!known || known->patient_until) continue;
    const bool enough = weight(*known, &Peer::asked, {}) >= known->quorum.enough;
    if (enough) known->patient_until = parts_.clock.boot() + kMorePatience;
  }
}

bool StartAdmission::is_majority(const MayCount& maps, bool Peer::*what,
                                 const std::set<VolumeId>& also) const {
  return std::all_of(maps.begin(), maps.end(), [&](const Known* known) {
    return weight(*known, what, also) >= known->quorum.majority;
  });
}

bool StartAdmission::reached(bool Peer::*what) const {
  const MayCount maps = may_count();
  return std::all_of(maps.begin(), maps.end(), [&](const Known* known) {
    return is_enough(*known, weight(*known, what, {}));
  });
}

Awaitable<void> StartAdmission::ask_peers() {
  const auto executor = co_await boost::asio::this_coro::executor;
  const Deadline deadline = parts_.clock.boot() + kCallPatience;
  FanOut<Heard> calls;
  std::vector<MapVolume> asked;
  const MayCount maps = may_count();
  for (const MapVolume& peer : peers()) {
    if (peers_[peer.id].asked && !wants_again(peers_[peer.id], maps)) continue;
    auto client = parts_.connect(peer);
    if (client == nullptr) continue;
    asked.push_back(peer);
    calls.start(executor, ask(std::move(client), parts_.volume->id(), own_hash_, deadline));
  }
  std::function<bool()> enough = [this, &calls, &asked, &maps] {
    std::set<VolumeId> answered;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto& answer = calls.answer(i);
      if (answer && *answer) answered.insert(asked[i].id);
    }
    return !parts_.alone && is_majority(maps, &Peer::asked, answered);
  };
  co_await calls.wait(std::move(enough), parts_.clock, deadline);
  // Half of two or four others need not meet the half that knows better.
  const BootTime soon = parts_.clock.boot() + kRestPatience;
  std::function<bool()> never = [] { return false; };
  co_await calls.wait(std::move(never), parts_.clock, deadline.capped(soon));
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto& answer = calls.answer(i);
    if (answer && *answer) judge(asked[i], answer->value());
  }
}

Awaitable<void> StartAdmission::tell_peers(std::string name, std::string bytes, bool Peer::*told) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const Deadline deadline = parts_.clock.boot() + Duration(limits::kNoProgress);
  FanOut<void> calls;
  std::vector<VolumeId> telling;
  const MayCount maps = may_count();
  for (const MapVolume& peer : peers()) {
    if (peers_[peer.id].*told) continue;
    auto client = parts_.connect(peer);
    if (client == nullptr) continue;
    telling.push_back(peer.id);
    calls.start(executor, tell(std::move(client), name, bytes, deadline));
  }
  std::function<bool()> enough = [this, &calls, &telling, &maps, told] {
    std::set<VolumeId> answered;
    for (std::size_t i = 0; i < telling.size(); ++i) {
      const auto& answer = calls.answer(i);
      if (answer && *answer) answered.insert(telling[i]);
    }
    return !parts_.alone && parts_.volume->waits() && is_majority(maps, told, answered);
  };
  co_await calls.wait(std::move(enough), parts_.clock, deadline);
  for (std::size_t i = 0; i < telling.size(); ++i) {
    const auto& answer = calls.answer(i);
    if (answer) judge_told(telling[i], *answer, told);
  }
}

// ---- the steps

Awaitable<void> StartAdmission::admit_member() {
  StartingVolume& volume = *parts_.volume;
  if (!counted_ && !holds(Rule::start_counted_last)) {
    counted_ = (co_await volume.count_start()).has_value();
  }
  co_await ask_peers();
  begin_patience();
  if (refused_ || !is_named()) co_return;  // by a map that has just been heard of
  if (!parts_.alone && !reached(&Peer::asked) && holds(Rule::start_asked)) {
    volume.wait_for(waiting_text(&Peer::asked, "to say that it is no old copy"));
    co_return;
  }
  if (!counted_) {
    const Result<> counted = co_await volume.count_start();
    if (!counted &&
        counted.error().thrown) {  // no thread or memory to be had: no fault of the disk
      volume.wait_for("can count its start: " + counted.error().context);
      co_return;
    }
    if (!counted) co_return refuse("its start cannot be counted: " + counted.error().context);
    counted_ = true;
  }
  co_await tell_peers(starts_note(volume.id()), own_note(), &Peer::started);
  if (refused_) co_return;
  if (!parts_.alone && !reached(&Peer::started) && holds(Rule::start_noted)) {
    volume.wait_for(waiting_text(&Peer::started, "to note its start"));
    co_return;
  }
  admitted_ = true;
  rounds_ = 0;
  volume.admit(true);
}

Awaitable<void> StartAdmission::step() {
  StartingVolume& volume = *parts_.volume;
  take_own_map();
  take_followed_map();
  if (failed_) {
    co_await tell_peers(failure_note(volume.id()), parts_.boot_id, &Peer::failed);
    co_return;
  }
  if (refused_) co_return;
  if (admitted_ && !volume.waits()) {
    forget_maps();
    // One that no map named was not counted. It may have got its first map since, and failed.
    if (is_all_told() || !counted_) co_return;
    co_await tell_peers(starts_note(volume.id()), own_note(), &Peer::started);
    co_return;
  }
  if (own_unreadable_) {
    volume.wait_for("its map is of a newer release, or damaged: nobody knows whom to ask");
    co_return;
  }
  if (is_named()) co_return co_await admit_member();
  if (own_names_) {
    volume.wait_for(
        "the map of epoch " + std::to_string(may_count().back()->map.epoch.value) +
        " names it no more: it was replaced, or that map does not count; remove nothing "
        "before you looked at `penstock ring status`");
    co_return;
  }
  // Not counted: a copy from before its first map would draw level with those that have noted the
  // original's starts.
  admitted_ = true;
  volume.admit(false);
}

bool StartAdmission::is_all_told() const {
  const auto all = peers();
  return std::all_of(all.begin(), all.end(), [this](const MapVolume& peer) {
    const auto at = peers_.find(peer.id);
    return at != peers_.end() && (failed_ ? at->second.failed : at->second.started);
  });
}

Duration StartAdmission::pause() const {
  if (failed_) return kLaterPause;
  if (is_settled() && (refused_ || !peers().empty())) return kLaterPause;
  if (is_settled()) return kPauseMax;  // until it gets its first map
  return std::min<Duration>(kPauseMin * (1 << std::min<std::size_t>(rounds_, 8)), kPauseMax);
}

Task<> StartAdmission::settle() {
  while (!stopping_) {
    co_await step();
    if (refused_) co_return fail(Errc::unavailable, *refused_);
    if (is_settled()) co_return Result<>{};
    const BootTime again = parts_.clock.boot() + pause();
    ++rounds_;
    co_await wakeup_.wait(parts_.clock, again);
  }
  co_return fail(Errc::shutting_down, "this process stops");
}

Awaitable<void> StartAdmission::run() {
  while (!stopping_) {
    co_await step();
    const BootTime again = parts_.clock.boot() + pause();
    ++rounds_;
    if (!stopping_) co_await wakeup_.wait(parts_.clock, again);
  }
  if (failed_ && !is_all_told()) co_await step();  // found just before the stop
}

void StartAdmission::stop() {
  stopping_ = true;
  wakeup_.notify();
}

void StartAdmission::tell_failure() {
  failed_ = !parts_.boot_id.empty();
  wakeup_.notify();
}

// Of the newest map of whose peers there are too few.
std::string StartAdmission::waiting_text(bool Peer::*what, const char* for_what) const {
  const MayCount maps = may_count();
  const auto found = std::find_if(maps.begin(), maps.end(), [&](const Known* known) {
    return !is_enough(*known, weight(*known, what, {}));
  });
  const Known& known = found == maps.end() ? *maps.front() : **found;
  const AdmissionQuorum& quorum = known.quorum;
  const auto did = [&](VolumeId id) {
    const auto at = peers_.find(id);
    return at != peers_.end() && at->second.*what;
  };
  const auto number = std::count_if(quorum.weights.begin(), quorum.weights.end(),
                                    [&](const auto& entry) { return did(entry.first); });
  std::string text = "waits for " + parts_text(quorum) + " " + for_what + "; " +
                     std::to_string(number) + (is_even(quorum) ? "" : " volumes") +
                     " did, not yet: ";
  std::size_t names = 0;
  for (const MapVolume& peer : quorum.peers) {
    if (!quorum.weights.contains(peer.id) || did(peer.id)) continue;
    if (++names > kNamesMax) return text + ", ...";
    text += (names > 1 ? ", " : "") + peer.name;
    if (!peer.address.empty()) text += " at " + peer.address;
  }
  return text;
}

}  // namespace penstock
