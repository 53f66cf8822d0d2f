// What volumes of one process note of each other beside their starts (volume_note.h): paths. On
// disk, never change.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "penstock/volume_note.h"

namespace penstock {

inline constexpr std::string_view kPathNote = "path/";
// Of a volume elsewhere than below its store's single directory: that directory.
inline constexpr std::string_view kHomeNote = "home";

// As paths are noted and compared: absolute, without "." and "..", nor a slash at the end. Links
// stay as they are.
inline std::string plain_path(const std::string& path) {
  std::error_code ignored;
  const auto whole = std::filesystem::absolute(path, ignored).lexically_normal();
  return whole.has_filename() || !whole.has_relative_path() ? whole.string()
                                                            : whole.parent_path().string();
}

// Two names of one directory are one volume: links resolved.
inline std::string real_path(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::weakly_canonical(path, error);
  return error ? path : real.string();
}

// Where a volume lies if not in one of the directories that the store was started with; as
// StoreDirectories::noted() has it.
inline std::string path_note(VolumeId id) { return std::string(kPathNote) + hex_name(id.value); }

}  // namespace penstock
