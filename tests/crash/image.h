// How a power cut leaves the six volumes, drawn from a seed, and how such a state becomes real
// directories.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/fake/fake_disk.h"
#include "tests/sim/sim_time.h"

namespace penstock::crash {

using Disks = std::vector<std::unique_ptr<FakeDisk>>;

// One power cut: whom it hits, and what of the unsynced data and names is there afterwards.
struct Cut {
  std::set<std::size_t> hit;  // the other volumes keep what their kernel has
  Keep data = Keep::some;
  Keep names = Keep::some;
  // The power goes again at this changing call of each volume's next start; 0: it does not.
  std::uint64_t again_at = 0;
  // Volumes that are away while everything is read for the first time: hit ones stay, if possible,
  // so that what they hold is needed.
  std::set<std::size_t> left_out;
};
Cut draw_cut(sim::SimRandom& random, std::size_t volumes);
std::string to_string(const Cut& cut);

// Cuts the power of `disks`.
void strike(const Cut& cut, sim::SimRandom& random, const Disks& disks);

// Writes all directories and files of `disk` below the existing, empty directory `path`. Errors:
// io.
Result<> write_out(Disk& disk, const std::string& path);

}  // namespace penstock::crash
