// What /readyz says of one volume, in a line. Pure.
#pragma once
#include <string>
#include <utility>

#include "penstock/volume_client.h"

namespace penstock {

inline std::string volume_line(std::string name, const VolumeStatus& status, bool suspect,
                               bool slow) {
  std::string line = std::move(name) + " ";
  line += state_name(status.state);
  if (status.full) line += " full";
  if (suspect && status.state == VolumeStatus::State::open) line += slow ? " slow" : " suspect";
  if (!status.reason.empty()) line += " (" + status.reason + ")";
  return line + "\n";
}

}  // namespace penstock
