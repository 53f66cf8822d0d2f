#include "server/membership/slow_volumes.h"

#include <algorithm>
#include <optional>

namespace penstock {
namespace {

constexpr std::uint64_t kWhole = 1000;  // shares are in thousandths
constexpr std::uint64_t kTimesTheOthers = 4;

bool tells(const VolumePace& volume) {
  return volume.slow ? volume.bytes > 0 : volume.bytes >= kPaceBytesMin;
}

std::uint64_t share_of(const VolumePace& volume) { return volume.late * kWhole / volume.bytes; }

// The median share of the volumes that are not slow, without one; nullopt: of fewer than two.
std::optional<std::uint64_t> share_of_others(const std::vector<VolumePace>& volumes,
                                             std::size_t without) {
  std::vector<std::uint64_t> shares;
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    if (i != without && !volumes[i].slow && tells(volumes[i]))
      shares.push_back(share_of(volumes[i]));
  }
  if (shares.size() < 2) return std::nullopt;
  const auto middle = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2);
  std::nth_element(shares.begin(), middle, shares.end());
  return *middle;
}

// Was it late in this window? nullopt: that cannot be told.
std::optional<bool> was_late(const std::vector<VolumePace>& volumes, std::size_t index) {
  const VolumePace& volume = volumes[index];
  if (!tells(volume)) return std::nullopt;
  const std::uint64_t share = share_of(volume);
  if (share * 2 < kWhole) return false;
  const auto others = share_of_others(volumes, index);
  if (!others && volume.slow) return true;  // as before
  if (!others) return std::nullopt;
  return share >= kTimesTheOthers * *others;
}

}  // namespace

bool tells_paces(const std::vector<VolumePace>& volumes) {
  return std::count_if(volumes.begin(), volumes.end(), tells) >= 3;
}

void judge_paces(std::vector<VolumePace>& volumes, BootTime now) {
  std::vector<std::optional<bool>> late;
  for (std::size_t i = 0; i < volumes.size(); ++i) late.push_back(was_late(volumes, i));
  std::size_t away = 0;
  for (const VolumePace& volume : volumes) away += volume.lost || volume.slow ? 1 : 0;
  const std::size_t away_max = volumes.size() / 3;
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    VolumePace& volume = volumes[i];
    if (volume.bytes > 0) volume.heard = now;
    if (late[i] && *late[i] != volume.slow) {
      ++volume.windows;
    } else if (late[i]) {  // on a busy machine one window in a few is late by chance
      volume.windows = volume.slow ? std::max(volume.windows - 1, 0) : 0;
    }
    const int enough = volume.slow ? kTimelyAfterWindows : kSlowAfterWindows;
    bool turns = volume.windows >= enough;
    if (volume.slow) {
      turns = turns || away > away_max || now - volume.heard >= kSlowForgotten;
    } else {
      turns = turns && !volume.lost && away < away_max;
    }
    if (!turns) continue;
    volume.slow = !volume.slow;
    volume.windows = 0;
    if (!volume.lost) away = volume.slow ? away + 1 : away - 1;
  }
}

}  // namespace penstock
