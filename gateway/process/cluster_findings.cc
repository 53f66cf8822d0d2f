#include "gateway/process/cluster_findings.h"

#include <algorithm>
#include <map>
#include <set>

#include "gateway/process/candidates.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

class Findings {
 public:
  Findings(const ClusterLook& look, bool has_source) : look_(look), has_source_(has_source) {}

  std::vector<Finding> find() {
    find_of_source();
    if (look_.maps.verdict.follow) {
      moved_ = moved_volumes(look_, *look_.maps.verdict.follow);
      for (const MapVolume& entry : look_.maps.verdict.follow->volumes) find_of_volume(entry);
      find_suspects(*look_.maps.verdict.follow);
      find_left_out();
    }
    find_clocks();
    return std::move(findings_);
  }

 private:
  void add(std::string what, std::string volume, std::string meaning) {
    findings_.push_back({std::move(what), std::move(volume), std::move(meaning), false});
  }

  void find_of_source() {
    const MapVerdict& verdict = look_.maps.verdict;
    if (has_source_ && !look_.maps.has_source) {
      add("source_away", "",
          "the map source does not answer (" + look_.maps.source_error +
              "): reads and writes go on, only changes of the map wait. Start it again");
    }
    if (verdict.trouble != MapTrouble::none) {
      add(std::string(to_string(verdict.trouble)), "", verdict.meaning);
    } else if (!verdict.follow && !look_.maps.head.map) {
      find_of_nothing();
    }
  }

  // Nobody has a map. Who does not answer may have one.
  void find_of_nothing() {
    bool silent = look_.servers.empty();
    for (const FoundServer& server : look_.servers) {
      if (server.trouble.empty()) continue;
      silent = true;
      add("server_away", "", server.trouble + ": start the server, or mend the way to it");
    }
    if (!silent) return add("no_map", "", "there is no map yet: `penstock ring make` makes one");
    add("no_map_found", "",
        "nobody who answers holds a map. Look whether the command names the right place; only for "
        "a new cluster `penstock ring make` makes one");
  }

  void find_of_volume(const MapVolume& entry) {
    const std::string at = look_.address_of(entry);
    if (look_.places.contains(entry.id) && at != entry.address) {
      add("address_changed", entry.name,
          moved_.contains(entry.id) ? moved_text(entry, at)
                                    : "the map says " + entry.address + ", it is served at " + at +
                                          ", but is not open there, or not only there: see the "
                                          "log of that server");
    }
    find_twins(entry);
    const HeldMap* held = held_by(look_, entry.id);
    if (held == nullptr || !held->answered) return find_silent(entry);
    const DescribedVolume* told = look_.volume(entry.id);
    if (told && told->status.full) {
      add("volume_full", entry.name, "it takes no new data: add volumes, or delete objects");
    }
    if (told && told->damaged_reads > 0) find_damage(entry, *told);
    if (!held->map) {
      return add("volume_behind", entry.name,
                 "it holds no map yet: its server takes the newest within seconds");
    }
    compare(entry, *held->map);
  }

  void find_damage(const MapVolume& entry, const DescribedVolume& told) {
    const std::string times = std::to_string(told.damaged_reads);
    add("volume_damaged", entry.name,
        "since its server began, " + times + (told.damaged_reads == 1 ? " read" : " reads") +
            " found a fragment damaged there, and others had to stand in. `fragment_damaged` in "
            "the logs names them; look at the disk of " +
            told.path);
    findings_.back().is_past = true;
  }

  // Two processes that serve one volume are two acceptors of one name.
  void find_twins(const MapVolume& entry) {
    std::string at;
    std::size_t count = 0;
    for (const FoundServer& server : look_.servers) {
      if (!server.told) continue;
      const auto& volumes = server.told->volumes;
      const bool open = std::any_of(volumes.begin(), volumes.end(), [&entry](const auto& volume) {
        return volume.id == entry.id && volume.status.state == VolumeStatus::State::open;
      });
      if (!open) continue;
      at += (at.empty() ? "" : " and ") + server.address;
      ++count;
    }
    if (count < 2) return;
    add("volume_twice", entry.name,
        "it is open at " + at +
            ": one of them has a copy of its directory. Stop all but the one "
            "that was there first");
  }

  void compare(const MapVolume& entry, const ClusterMap& own) {
    const ClusterMap& follow = *look_.maps.verdict.follow;
    const std::string epochs = "it holds epoch " + std::to_string(own.epoch.value) + ", not " +
                               std::to_string(follow.epoch.value);
    if (own.cluster != follow.cluster) {
      add("other_cluster", entry.name,
          "it holds a map of another cluster: the directory is a wrong one");
    } else if (own.epoch < follow.epoch) {
      add("volume_behind", entry.name,
          epochs + ": its server takes the newest within seconds; if not, see that server's log");
    } else if (own.epoch > follow.epoch) {
      add("volume_ahead", entry.name, epochs + ", which never counted: `penstock ring restore`");
    } else if (own.digest != follow.digest) {
      add("volume_forked", entry.name,
          "it holds another map of epoch " + std::to_string(own.epoch.value) +
              ", which never counted: `penstock ring restore`");
    }
  }

  void find_silent(const MapVolume& entry) {
    const std::string at = look_.address_of(entry);
    const FoundServer* server = look_.server(at);
    if (server == nullptr || !server->trouble.empty()) {
      const std::string why = server ? server->trouble : "server " + at + " was not asked";
      return add("server_away", entry.name, why + ": start the server, or mend the way to it");
    }
    if (const DescribedVolume* told = look_.volume(entry.id)) {
      return add("volume_closed", entry.name,
                 told->path + ": " + told->status.reason + ". See the log of server " + at);
    }
    for (const VolumeId id : server->volumes) {
      const HeldMap* other = held_by(look_, id);
      if (!other || !other->answered || other->map) continue;
      return add(
          "volume_wiped", entry.name,
          "server " + at +
              " serves a fresh volume in its place: its disk was wiped or "
              "changed, and what it held is lost. `penstock ring add` takes the fresh one in");
    }
    std::string closed;
    if (server->told) {
      for (const DescribedVolume& volume : server->told->volumes) {
        if (volume.id.value != 0) continue;
        closed += (closed.empty() ? "" : "; ") + volume.path + ": " + volume.status.reason;
      }
    }
    add("volume_missing", entry.name,
        "server " + at + " has no such volume: " +
            (closed.empty() ? "the address is another server's"
                            : "this is it, or what it could not open (" + closed + ")"));
  }

  void find_suspects(const ClusterMap& map) {
    std::map<std::string, std::string> by;
    for (const FoundServer& server : look_.servers) {
      if (!server.told) continue;
      for (const std::string& name : server.told->suspects) {
        by[name] += (by[name].empty() ? "" : ", ") + server.address;
      }
    }
    for (const MapVolume& entry : map.volumes) {
      const HeldMap* held = held_by(look_, entry.id);
      if (!by.contains(entry.name) || !held || !held->answered) continue;
      const DescribedVolume* told = look_.volume(entry.id);
      if (told && told->status.state != VolumeStatus::State::open) {
        add("volume_waits", entry.name,
            told->path + ": " + told->status.reason + ". It goes on by itself when they answer");
        continue;
      }
      add("volume_suspect", entry.name,
          "it answers here, but not these servers, or too late: " + by[entry.name] +
              ". Look at the way between them, and at its disk");
    }
  }

  void find_left_out() {
    for (const HeldMap& held : look_.maps.held) {
      std::string text = left_out_text(look_, held);
      if (text.empty()) continue;
      add("volume_not_in_the_map", held.map->find(held.volume)->name, std::move(text));
    }
  }

  void find_clocks() {
    for (const FoundServer& server : look_.servers) {
      if (!server.told) continue;
      const Duration off = std::max(server.clock_ahead, -server.clock_ahead);
      if (off - server.round_trip / 2 <= limits::kClockOff) continue;
      const auto seconds = std::to_string(off / std::chrono::seconds(1));
      add("clock_off", "",
          "the clock of server " + server.address + " is " + seconds + " s " +
              (server.clock_ahead.count() > 0 ? "ahead of" : "behind") +
              " this machine's: let both keep the time (NTP)");
    }
  }

  const ClusterLook& look_;
  const bool has_source_;
  MovedVolumes moved_;
  std::vector<Finding> findings_;
};

}  // namespace

const HeldMap* held_by(const ClusterLook& look, VolumeId id) {
  const auto same = [id](const HeldMap& held) { return held.volume == id; };
  const auto at = std::find_if(look.maps.held.begin(), look.maps.held.end(), same);
  return at == look.maps.held.end() ? nullptr : &*at;
}

bool is_trouble(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return !finding.is_past; });
}

std::vector<Finding> find_trouble(const ClusterLook& look, bool has_source) {
  return Findings(look, has_source).find();
}

}  // namespace penstock
