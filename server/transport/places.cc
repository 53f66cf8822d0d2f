#include "server/transport/places.h"

#include <algorithm>
#include <utility>

#include "server/transport/tcp_stream.h"

namespace penstock {

bool Places::take(const wire::Place& place) {
  if (place.volume.value == 0 || !parse_peer_address(place.address)) return false;
  const auto known = places_.find(place.volume);
  if (known == places_.end()) {
    if (places_.size() >= limits::kPlacesMax) return false;
    places_.emplace(place.volume, place);
    return true;
  }
  const auto age = [](const wire::Place& one) { return std::pair(one.start, one.since); };
  if (age(place) <= age(known->second)) return false;
  known->second = place;
  return true;
}

std::optional<wire::Place> Places::find(VolumeId volume) const {
  const auto known = places_.find(volume);
  return known == places_.end() ? std::nullopt : std::optional(known->second);
}

std::vector<wire::Place> Places::all() const {
  std::vector<wire::Place> all;
  for (const auto& [volume, place] : places_) all.push_back(place);
  return all;
}

bool Places::names(const std::string& address) const {
  return std::any_of(places_.begin(), places_.end(),
                     [&address](const auto& one) { return one.second.address == address; });
}

}  // namespace penstock
