// What a volume does with its part of the memory of the process. Pure.
#pragma once
#include <cstddef>
#include <cstdint>

#include "server/volume/volume.h"

namespace penstock {

// Who reads rows of the volume. Inside one process a read asks one volume for the row, and others
// whether they know its ballot; over connections a majority of volumes look for their rows.
enum class RowReaders : std::uint8_t { own_process, other_processes };

// Sets the sizes of caches and buffers, and those of tables, whose indexes are in memory.
void spend_memory(std::size_t per_volume, RowReaders readers, VolumeOptions& options);

}  // namespace penstock
