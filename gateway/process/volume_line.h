// What /readyz says of one volume, in a line. Pure.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "penstock/text_codec.h"
#include "penstock/volume_client.h"

namespace penstock {

// A reason may repeat bytes of a damaged file: none of them makes a line, or no text.
inline std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x20 && byte < 0x7f;
    out += plain ? std::string(1, c) : "\\x" + hex_encode(std::string_view(&c, 1));
  }
  return out;
}

inline std::string volume_line(std::string name, const VolumeStatus& status, bool suspect,
                               bool slow) {
  std::string line = std::move(name) + " ";
  line += state_name(status.state);
  if (status.full) line += " full";
  if (suspect && status.state == VolumeStatus::State::open) line += slow ? " slow" : " suspect";
  if (!status.reason.empty()) line += " (" + printable(status.reason) + ")";
  return line + "\n";
}

}  // namespace penstock
