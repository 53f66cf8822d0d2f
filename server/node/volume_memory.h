// What a volume does with its part of the memory of the process. Pure.
#pragma once
#include <cstddef>
#include <cstdint>

#include "server/volume/volume.h"

namespace penstock {

// Who asks the volume for rows. Its own process asks others for the ballots that they know, and for
// the row of one volume only; over connections three replicas look for their rows.
enum class RowReaders : std::uint8_t { own_process, other_processes };

// Sets the sizes of caches and buffers, and those of tables, whose indexes are in memory.
void spend_memory(std::size_t per_volume, RowReaders readers, VolumeOptions& options);

}  // namespace penstock
