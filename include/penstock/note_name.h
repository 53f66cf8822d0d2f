// Which names a note may have (volume_note.h). Pure.
#pragma once
#include <string_view>

#include "penstock/volume_note.h"

namespace penstock {

// What a peer says becomes the name of a row: lower case letters, digits and "/", from a letter on;
// what is noted of starts and failures names a volume.
inline bool is_note_name(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  if (name.empty() || name.size() > kNoteNameBytesMax || !is_letter(name.front())) return false;
  for (const char c : name) {
    if (!is_digit(c) && !is_letter(c) && c != '/') return false;
  }
  for (const std::string_view kind : {kStartsNote, kFailureNote}) {
    if (!name.starts_with(kind)) continue;
    const std::string_view id = name.substr(kind.size());
    if (id.size() != 16 || id.find_first_not_of("0123456789abcdef") != id.npos) return false;
  }
  return true;
}

}  // namespace penstock
