#include "server/node/first_format.h"

#include "server/node/side_by_side.h"
#include "server/node/volume_notes.h"

namespace penstock {
namespace {

constexpr const char* kMarkerFile = "cluster";

Result<> write_marker(const FirstFormat& store) {
  for (const auto& volume : store.volumes) {
    if (!volume || !is_volume(*volume)) continue;
    TRY(identity, read_identity(*volume));
    const ClusterId id = identity.cluster;
    TRY(marker, store.above->open(kMarkerFile, OpenMode::write_new));
    const std::string text = hex_name(id.high) + hex_name(id.low) + "\n";
    CHECK_OK(marker->write_at(0, as_bytes(text)));
    CHECK_OK(marker->sync());
    return store.above->sync_directory("");
  }
  return {};
}

Result<> end_first_format(const FirstFormat& store, std::size_t at_once) {
  if (store.above && !store.above->exists(kMarkerFile)) CHECK_OK(write_marker(store));
  const auto end = [&store](std::size_t i) -> Result<> {
    const auto& volume = store.volumes[i];
    return volume && is_volume(*volume) ? end_format(*volume) : Result<>{};
  };
  return run_side_by_side(store.volumes.size(), at_once, end);
}

}  // namespace

Result<std::unique_ptr<Disk>> make_volume_directory(const std::filesystem::path& path) {
  if (path.empty()) return fail(Errc::invalid, "a DIR has no name: \"\"");
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error) return fail(Errc::io, "cannot look at \"" + path.string() + "\": " + error.message());
  if (!there) {
    const auto whole = std::filesystem::absolute(path, error);
    if (error || !whole.has_relative_path()) {
      return fail(Errc::not_found, "cannot make \"" + path.string() + "\"");
    }
    TRY(above, make_volume_directory(whole.parent_path()));
    std::filesystem::create_directory(path, error);
    if (error) {
      return fail(Errc::io, "cannot make \"" + path.string() + "\": " + error.message());
    }
    CHECK_OK(above->sync_directory(""));
  }
  return make_posix_disk(path);
}

Result<bool> wants_first_format(const FirstFormat& store) {
  if (store.above && is_volume(*store.above)) {
    return fail(Errc::invalid, "\"" + store.above->path("") +
                                   "\" is one volume of a store: give "
                                   "the directories of all of them");
  }
  bool any = false, all = true, ended = false;
  for (const auto& volume : store.volumes) {
    const bool is_one = volume && is_volume(*volume);
    any = any || is_one;
    all = all && is_one;
    ended = ended || (is_one && !is_formatting(*volume));
  }
  const bool marked = store.above && store.above->exists(kMarkerFile);
  if (marked && !any && !store.elsewhere) {
    const std::string path = store.above->path("");
    return fail(Errc::corrupt,
                "\"" + path +
                    "\" held a store, but none of its volumes is there. "
                    "Mount them; where they lie elsewhere, give their directories "
                    "instead. Only if nothing of it is needed, remove the directory.");
  }
  if (!all && !ended && !marked) return true;
  CHECK_OK(end_first_format(store, 1));
  return false;
}

Result<> format_store(const FirstFormat& store, const ClusterMap& map, Clock& clock, Random& random,
                      Worker& worker, std::size_t at_once) {
  for (const auto& volume : store.volumes) CHECK_OK(check_formattable(*volume));
  const std::string json = map.to_json();
  const auto begin = [&](std::size_t i) {
    const VolumeIdentity identity{map.cluster, map.volumes[i].id};
    return begin_format(*store.volumes[i], clock, random, worker, identity, json);
  };
  CHECK_OK(run_side_by_side(store.volumes.size(), at_once, begin));
  return end_first_format(store, at_once);
}

}  // namespace penstock
