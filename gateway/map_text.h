// The map of a cluster and what it means, as people and programs read it. Pure.
// Thread-safety: any thread.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "placement/map_outlook.h"

namespace penstock {

// What is known beside the map.
struct MapView {
  const ClusterMap& map;
  MapOutlook outlook;
  std::map<VolumeId, std::uint64_t> room;  // free bytes; of those that told
};

std::string digest_text(const ClusterMap& map);       // the first 12 digits
std::string bytes_text(std::uint64_t bytes);          // "1.5 TiB"
std::string domains_text(const MapOutlook& outlook);  // "6 hosts"
std::string layout_text(const MapOutlook& outlook);   // "4+2"; "none"
std::string promise_text(const MapView& view);        // which losses are survived: a sentence

// `ring show`.
std::string show_text(const MapView& view);
std::string show_json(const MapView& view);

// `ring what-if`: `now` may be null.
std::string compare_text(const MapView* now, const MapView& then);
std::string compare_json(const MapView* now, const MapView& then);

}  // namespace penstock
