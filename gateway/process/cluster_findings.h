// What is wrong with a cluster, and what to do about it: by what its map source, its volumes and
// its servers said. Pure. Thread-safety: any thread.
#pragma once
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/process/admin_session.h"

namespace penstock {

struct Finding {
  std::string what;      // for programs: "volume_behind" …
  std::string volume;    // its name; empty: not of one volume
  std::string meaning;   // for people, with what to do
  bool is_past = false;  // it has happened, and is told until its server starts anew
};

// Is there something that waits to be done?
bool is_trouble(const std::vector<Finding>& findings);

// `has_source`: the command was told of a map source.
std::vector<Finding> find_trouble(const ClusterLook& look, bool has_source);

// The map that this volume holds; null: it did not answer.
const HeldMap* held_by(const ClusterLook& look, VolumeId id);

}  // namespace penstock
