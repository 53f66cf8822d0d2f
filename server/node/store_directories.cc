#include "server/node/store_directories.h"

#include <filesystem>
#include <set>

#include "penstock/log.h"
#include "server/node/volume_list.h"
#include "server/node/volume_notes.h"

namespace penstock {

StoreDirectories::StoreDirectories(const std::vector<std::string>& directories, unsigned volumes)
    : volumes_(volumes) {
  for (const std::string& directory : directories) paths_.push_back(plain_path(directory));
  if (is_single()) real_ = paths_.front();
}

void StoreDirectories::follow_links() {
  if (is_single()) real_ = real_path(paths_.front());
}

std::vector<std::string> StoreDirectories::first_places() const {
  if (!is_single()) return paths_;
  const std::string& base = paths_.front();
  std::set<unsigned> numbers;
  for (unsigned i = 0; i < volumes_; ++i) numbers.insert(i);
  std::error_code ignored;
  // Not a range's loop: its steps throw.
  const std::filesystem::directory_iterator end;
  for (auto entry = std::filesystem::directory_iterator(base, ignored); !ignored && entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename();
    if (name.size() < 2 || name.size() > 4 || name[0] != 'v') continue;
    if (name.find_first_not_of("0123456789", 1) != std::string::npos) continue;
    numbers.insert(static_cast<unsigned>(std::stoul(name.substr(1))));
  }
  std::vector<std::string> places;
  for (const unsigned number : numbers) places.push_back(base + "/v" + std::to_string(number));
  return places;
}

std::string StoreDirectories::real(const std::string& place) const {
  if (!is_single() || !place.starts_with(paths_.front() + "/")) return place;
  return real_ + place.substr(paths_.front().size());
}

bool StoreDirectories::is_below(const std::string& place) const {
  return is_single() && real(place).starts_with(real_ + "/");
}

std::string StoreDirectories::noted(const std::string& place) const {
  return is_below(place) ? real(place).substr(real_.size() + 1) : place;
}

std::string StoreDirectories::place_of(const std::string& noted) const {
  const bool within = is_single() && !noted.starts_with('/');
  return within ? plain_path(paths_.front() + "/" + noted) : noted;
}

std::vector<std::string> StoreDirectories::listed_places() const {
  if (!is_single()) return {};
  const auto above = make_posix_disk(paths_.front());
  if (!above) return {};
  const auto listed = read_volume_list(**above);
  if (listed) {
    std::vector<std::string> places;
    for (const std::string& path : *listed) places.push_back(place_of(path));
    return places;
  }
  log_event(LogLevel::error, "volume_list_unreadable", {{"reason", listed.error().context}});
  return {};
}

void StoreDirectories::list_places(const std::vector<std::string>& places) const {
  if (!is_single() || places.empty()) return;
  Result<> listed;
  if (auto above = make_posix_disk(paths_.front())) {
    std::vector<std::string> paths;
    for (const std::string& place : places) paths.push_back(noted(place));
    listed = add_to_volume_list(**above, paths);
  } else {
    listed = above.error();
  }
  if (listed) return;
  log_event(LogLevel::warn, "volume_list_failed", {{"reason", listed.error().context}});
}

}  // namespace penstock
