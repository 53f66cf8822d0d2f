// What volumes note about each other (R13), by name. On disk, never change.
#pragma once
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "server/volume/volume.h"

namespace penstock {

inline constexpr std::string_view kPathNote = "path/";

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

inline std::string hex_name(std::uint64_t id) {
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; id >>= 4) text[i] = "0123456789abcdef"[id & 15];
  return text;
}
// The highest start counter seen of a volume, the boot in which it failed, and where it lies if not
// in one of the directories that the store was started with.
inline std::string starts_note(VolumeId id) { return "starts/" + hex_name(id.value); }
inline std::string failure_note(VolumeId id) { return "failed/" + hex_name(id.value); }
inline std::string path_note(VolumeId id) { return std::string(kPathNote) + hex_name(id.value); }

// The number in a note of starts; empty: it says something else.
inline std::optional<std::uint64_t> noted_starts(std::string_view text) {
  std::uint64_t starts = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), starts);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return starts;
}

// R13: has the peer seen a later start of `started` than this one? Then it is an old copy.
inline bool knows_later_start(const Volume& peer, const Volume& started) {
  const auto note = peer.get_note(starts_note(started.id()));
  const auto starts = note ? noted_starts(*note) : std::nullopt;
  return starts && *starts >= started.start_counter();
}

}  // namespace penstock
