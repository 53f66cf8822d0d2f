// What volumes note of one another (R13): small facts by name, durable at the volume that notes
// them. Names are on disk, never change them. Pure.
#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "penstock/types.h"

namespace penstock {

inline constexpr std::size_t kNoteNameBytesMax = 128;
inline constexpr std::size_t kNoteBytesMax = 4096;

// What a volume says of one of its notes.
struct NoteReply {
  std::optional<std::string> bytes;  // nullopt: it has no such note
  // Of the map's text that it holds (map_hash); two of one map say the same.
  std::uint64_t map = 0;
  bool operator==(const NoteReply&) const = default;
};

// XXH3-64 of a map's text; 0: there is none.
std::uint64_t map_hash(std::string_view text);

inline std::string hex_name(std::uint64_t id) {
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; id >>= 4) text[i] = "0123456789abcdef"[id & 15];
  return text;
}

inline constexpr std::string_view kStartsNote = "starts/";
inline constexpr std::string_view kFailureNote = "failed/";
// The highest start counter seen of a volume, and the boot of its machine in which it failed.
inline std::string starts_note(VolumeId id) {
  return std::string(kStartsNote) + hex_name(id.value);
}
inline std::string failure_note(VolumeId id) {
  return std::string(kFailureNote) + hex_name(id.value);
}

// What a process notes of a start: its number, and which process it is, so that two copies that
// start with one number are told apart. `process` may be empty: older releases noted none.
inline std::string starts_text(std::uint64_t starts, std::string_view process) {
  return std::to_string(starts) + (process.empty() ? "" : ":") + std::string(process);
}
// The number in a note of starts; empty: it says something else.
inline std::optional<std::uint64_t> noted_starts(std::string_view text) {
  text = text.substr(0, text.find(':'));
  std::uint64_t starts = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), starts);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return starts;
}

// A note of starts never goes down, and one number is of one process: what was noted stays. The
// same told twice is no other note.
inline bool is_outdated(std::string_view name, std::string_view noted, std::string_view told) {
  if (!name.starts_with(kStartsNote) || noted == told) return false;
  const auto old_starts = noted_starts(noted);
  const auto starts = noted_starts(told);
  return old_starts && (!starts || *starts <= *old_starts);
}

}  // namespace penstock
