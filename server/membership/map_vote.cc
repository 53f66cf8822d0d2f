#include "server/membership/map_vote.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "penstock/planted.h"

namespace penstock {
namespace {

using Map = std::shared_ptr<const ClusterMap>;

std::string epoch_text(const Map& map) { return "epoch " + std::to_string(map->epoch.value); }

// What the volumes said, by volume and by map.
class Votes {
 public:
  explicit Votes(const std::vector<HeldMap>& held) {
    for (const HeldMap& each : held) {
      if (!each.answered || !each.map) continue;
      by_volume_[each.volume] = each.map;
      const bool known = std::any_of(maps_.begin(), maps_.end(), [&](const Map& map) {
        return map->digest == each.map->digest;
      });
      if (!known) maps_.push_back(each.map);
    }
    std::stable_sort(maps_.begin(), maps_.end(),
                     [](const Map& a, const Map& b) { return a->epoch > b->epoch; });
  }

  // The newest that is held; null: none.
  Map held_map() const {
    const auto found =
        std::find_if(maps_.begin(), maps_.end(), [this](const Map& map) { return is_held(*map); });
    return found == maps_.end() ? nullptr : *found;
  }
  // Majorities hold this very map: two such maps of one epoch cannot be.
  bool is_agreed(const ClusterMap& map) const {
    return reached(map, [&map](const ClusterMap& own) { return own.digest == map.digest; });
  }
  bool any() const { return !maps_.empty(); }
  // Majorities of the lists of this map have answered, none of them with a newer one, and no other
  // map of its epoch can be held: not even if all who are silent have it.
  bool split_over(const ClusterMap& map) const {
    const auto is_it = [&](const Map& known) { return known->digest == map.digest; };
    if (newest()->epoch > map.epoch || std::none_of(maps_.begin(), maps_.end(), is_it)) {
      return false;
    }
    const auto answered = [&](VolumeId id) { return by_volume_.contains(id); };
    return of_each_list(map, answered) &&
           std::none_of(maps_.begin(), maps_.end(), [&](const Map& known) {
             return known->epoch == map.epoch && !is_it(known) && may_be_held(*known);
           });
  }
  Map newest() const { return maps_.empty() ? nullptr : maps_.front(); }
  // Two maps of one epoch; null: there are none.
  Map forked() const {
    const auto same = [](const Map& a, const Map& b) { return a->epoch == b->epoch; };
    const auto found = std::adjacent_find(maps_.begin(), maps_.end(), same);
    return found == maps_.end() ? nullptr : *found;
  }

 private:
  bool is_held(const ClusterMap& map) const {
    if (!holds(Rule::map_held)) return true;
    return reached(map, [&map](const ClusterMap& own) {
      return own.epoch > map.epoch || own.digest == map.digest;
    });
  }

  bool may_be_held(const ClusterMap& map) const {
    return of_each_list(map, [&](VolumeId id) {
      const auto found = by_volume_.find(id);
      return found == by_volume_.end() || found->second->digest == map.digest;
    });
  }

  // Do majorities of all of the map's lists hold maps that `counts`?
  template <class Counts>
  bool reached(const ClusterMap& map, Counts counts) const {
    const auto holds_it = [&](VolumeId id) {
      const auto found = by_volume_.find(id);
      return found != by_volume_.end() && counts(*found->second);
    };
    return of_each_list(map, holds_it);
  }
  template <class Holds>
  static bool of_each_list(const ClusterMap& map, Holds holds) {
    return std::all_of(map.groups.begin(), map.groups.end(), [&](const MapGroup& group) {
      return has_majority(group.replicas, holds) &&
             (group.joint.empty() || has_majority(group.joint, holds));
    });
  }

  std::map<VolumeId, Map> by_volume_;
  std::vector<Map> maps_;  // each once, newest first
};

struct Finding {
  MapTrouble trouble = MapTrouble::none;
  std::string meaning;
};

Finding damaged(const std::string& unreadable, const Map& held) {
  const std::string what =
      "the map source holds something that is no map of this cluster (" + unreadable + ")";
  if (held) {
    return {MapTrouble::source_damaged,
            what + ", but a majority of the volumes holds a map of " + epoch_text(held) +
                ". Look whether --map names the right place. If it does, `penstock ring restore` "
                "writes that map there; until then nothing can be changed"};
  }
  return {MapTrouble::source_damaged,
          what +
              ", and too few volumes answer to tell which map counts: start more servers, then "
              "`penstock ring restore`. For a new cluster remove it"};
}

Finding compare(const Map& head, bool has_source, const Map& held) {
  if (!held) return {};
  const std::string of_volumes = "a majority of the volumes holds a map of " + epoch_text(held);
  if (has_source && !head) {
    return {MapTrouble::source_empty,
            "the map source is empty, but " + of_volumes +
                ": it was wiped, or is another one. `penstock ring restore` writes the map back; "
                "until then nothing can be changed"};
  }
  if (!head) return {};
  if (head->epoch < held->epoch && holds(Rule::map_forward)) {
    return {MapTrouble::source_behind,
            "the map source holds " + epoch_text(head) + ", but " + of_volumes +
                ": it came back older. `penstock ring restore` writes the newer map back; until "
                "then nothing can be changed"};
  }
  if (head->epoch == held->epoch && head->digest != held->digest) {
    return {MapTrouble::source_forked,
            "the map source and volumes hold two maps of " + epoch_text(head) +
                ": it came back older, and was changed then. `penstock ring restore` makes the "
                "map that the volumes hold the newest; until then nothing can be changed"};
  }
  return {};
}

// Held maps of lower epochs alone: what is lost there, a newer head takes away.
Finding look_for_lost(const Map& head, const Map& held) {
  if (!held || !head || head->epoch <= held->epoch) return {};
  const MapVolume* lost = find_lost(*head, *held);
  if (lost == nullptr) return {};
  return {MapTrouble::source_lacks_volumes,
          "the map source holds " + epoch_text(head) + " without volume " + lost->name +
              ", which the map of " + epoch_text(held) +
              " has, held by a majority of the volumes: the source came back older and was changed "
              "then. Remove no directory. `penstock ring restore` writes the map that is held "
              "back; until then nothing can be changed"};
}

Finding look_at_volumes(const Votes& votes, const Map& follow) {
  if (!follow) return {};
  if (const Map forked = votes.forked()) {
    return {MapTrouble::volumes_forked,
            "volumes hold two maps of " + epoch_text(forked) +
                ": those with the one that does not count take no part until the next change of "
                "the map, or `penstock ring restore`"};
  }
  const Map newest = votes.newest();
  if (newest && newest->epoch > follow->epoch) {
    return {MapTrouble::volumes_ahead,
            "a few volumes hold a map of " + epoch_text(newest) + ", which never counted; " +
                epoch_text(follow) +
                " does. They take no part until the next change of the map, or `penstock ring "
                "restore`"};
  }
  return {};
}

std::vector<VolumeId> lagging(const ClusterMap& follow, const std::vector<HeldMap>& held) {
  std::vector<VolumeId> lag;
  for (const HeldMap& each : held) {
    if (!each.answered || follow.find(each.volume) == nullptr) continue;
    if (!each.map || each.map->epoch < follow.epoch) lag.push_back(each.volume);
  }
  return lag;
}

}  // namespace

MapVerdict judge_maps(Map head, bool has_source, const std::vector<HeldMap>& held,
                      std::string_view unreadable) {
  const Votes votes(held);
  const Map counts = votes.held_map();
  MapVerdict verdict;
  Finding finding = unreadable.empty() ? compare(head, has_source, counts)
                                       : damaged(std::string(unreadable), counts);
  if (finding.trouble == MapTrouble::none) finding = look_for_lost(head, counts);
  const bool of_head = head && finding.trouble == MapTrouble::none;
  verdict.follow = of_head ? head : counts;
  verdict.majority = counts != nullptr;
  verdict.agreed = verdict.follow && votes.is_agreed(*verdict.follow);
  // Of a map of epoch 1 nobody knows whether any volume got it: it may just have been made.
  const bool expected = votes.any() || (head && head->epoch > Epoch{1});
  // Two maps of one epoch, and neither has majorities: the head says which of them goes on.
  const bool split = head && votes.any() && !counts && votes.split_over(*head);
  if (finding.trouble == MapTrouble::none && expected && !counts && !split) {
    finding = {MapTrouble::no_majority,
               "too few volumes answer to tell which map counts: start more servers"};
  }
  if (finding.trouble == MapTrouble::none) finding = look_at_volumes(votes, verdict.follow);
  if (const Map newest = votes.newest()) verdict.highest_seen = newest->epoch;
  if (head) verdict.highest_seen = std::max(verdict.highest_seen, head->epoch);
  if (verdict.follow) verdict.lag = lagging(*verdict.follow, held);
  verdict.trouble = finding.trouble;
  verdict.meaning = std::move(finding.meaning);
  return verdict;
}

std::string_view to_string(MapTrouble trouble) {
  switch (trouble) {
    case MapTrouble::none:
      return "none";
    case MapTrouble::source_empty:
      return "source_empty";
    case MapTrouble::source_damaged:
      return "source_damaged";
    case MapTrouble::source_behind:
      return "source_behind";
    case MapTrouble::source_forked:
      return "source_forked";
    case MapTrouble::volumes_ahead:
      return "volumes_ahead";
    case MapTrouble::volumes_forked:
      return "volumes_forked";
    case MapTrouble::no_majority:
      return "no_majority";
    case MapTrouble::source_lacks_volumes:
      return "source_lacks_volumes";
  }
  return "?";
}

bool forbids_change(MapTrouble trouble) {
  switch (trouble) {
    case MapTrouble::source_empty:
    case MapTrouble::source_damaged:
    case MapTrouble::source_behind:
    case MapTrouble::source_forked:
    case MapTrouble::no_majority:
    case MapTrouble::source_lacks_volumes:
      return true;
    case MapTrouble::none:
    case MapTrouble::volumes_ahead:
    case MapTrouble::volumes_forked:
      return false;
  }
  return true;
}

const MapVolume* find_lost(const ClusterMap& next, const ClusterMap& before) {
  const auto lost =
      std::find_if(before.volumes.begin(), before.volumes.end(), [&](const MapVolume& volume) {
        return volume.successor.value == 0 && next.find(volume.id) == nullptr;
      });
  return lost == before.volumes.end() ? nullptr : &*lost;
}

bool is_contradicted(const ClusterMap& map, const std::vector<HeldMap>& held) {
  return std::any_of(held.begin(), held.end(), [&map](const HeldMap& each) {
    if (!each.map) return false;
    if (each.map->epoch < map.epoch) return find_lost(map, *each.map) != nullptr;
    return each.map->epoch > map.epoch || each.map->digest != map.digest;
  });
}

Result<ClusterMap> past_epoch(ClusterMap next, Epoch highest_seen) {
  if (next.epoch <= highest_seen) {
    const std::uint64_t step = highest_seen.value + 1 - next.epoch.value;
    next.epoch.value += step;
    for (MapGroup& group : next.groups) group.epoch.value += step;
  }
  return ClusterMap::parse(next.to_json());
}

}  // namespace penstock
