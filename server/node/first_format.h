// How empty directories become a store, once; and what a cut in the middle of it leaves.
//
//   1  each volume is formatted and keeps its file `formatting`
//   2  the directory above them, if there is one, gets the file `cluster`: from now on an empty
//      directory below it is a missing volume
//   3  `formatting` goes everywhere
//
// Nothing is served before 3. A cut before the last volume of 1 leaves nothing of worth: the next
// start formats anew. A cut after it leaves a whole store: the next start does 2 and 3.
// Thread-safety: none; a start does it. All of it blocks.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "placement/cluster_map.h"
#include "server/volume/volume_format.h"

namespace penstock {

struct FirstFormat {
  std::vector<std::unique_ptr<Disk>> volumes;  // null: there is no such directory
  std::unique_ptr<Disk> above;                 // null: each volume has a directory of its own
  bool elsewhere = false;                      // volumes that came later lie somewhere else
};

// The directory, made if it lacks, with those above it; each is durable before anything is written
// below it. Errors: io; not_found.
Result<std::unique_ptr<Disk>> make_volume_directory(const std::filesystem::path& path);

// True if the directories hold nothing of a store, or only a first format that was cut off; a
// format that lacks only its end gets it here. Errors: corrupt - a store was here and all its
// volumes are gone; invalid - the directory above is itself a volume; io; full.
Result<bool> wants_first_format(const FirstFormat& store);

// Volumes that are formatted at a time: each waits for a few dozen syncs, and disks join those that
// come together.
inline constexpr std::size_t kFormatsAtOnce = 16;

// Makes the volumes of `map`, `at_once` at a time; with 1 in its order. Durable when it succeeds.
// `worker`: of all their databases, while they are made. Pre: no volume is null.
// Errors: invalid - a directory holds other files; io; full.
Result<> format_store(const FirstFormat& store, const ClusterMap& map, Clock& clock, Random& random,
                      Worker& worker, std::size_t at_once);

}  // namespace penstock
