// Files of a volume that are read and replaced whole. Each holds at most kSmallFileBytesMax.
#pragma once
#include <string>
#include <string_view>

#include "server/volume/disk/disk.h"

namespace penstock {

inline constexpr std::size_t kSmallFileBytesMax = 16 * 1024 * 1024;

// Errors: not_found; io.
Result<std::string> read_small_file(Disk& disk, const std::string& name);
// Written whole or not at all, and durable when it succeeds: temporary name, sync, rename, sync of
// the directory. `name` lies in the volume's own directory. Errors: invalid - too long; io; full.
Result<> replace_file(Disk& disk, const std::string& name, std::string_view bytes);

}  // namespace penstock
