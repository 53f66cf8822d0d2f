// What a volume does with its part of the memory of the process. Pure.
#pragma once
#include <cstddef>

#include "server/volume/volume.h"

namespace penstock {

// Sets the sizes of caches and buffers, and those of tables, whose indexes are in memory.
void spend_memory(std::size_t per_volume, VolumeOptions& options);

}  // namespace penstock
