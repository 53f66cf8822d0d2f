// Where volumes lie that came later: a file `volumes` in the store's one directory, a JSON list of
// paths, absolute ones or, of what lies below that directory, relative to it. The volumes note the
// same of each other (volume_notes.h); this is for the day on which none of the first ones is left
// to tell. On disk, never change. Thread-safety: none; calls block.
#pragma once
#include <string>
#include <vector>

#include "server/volume/disk/disk.h"

namespace penstock {

// Empty if there is no list. Errors: corrupt; io.
Result<std::vector<std::string>> read_volume_list(Disk& above);

// The list and `paths`, each once. Durable when it succeeds; old or new, never between.
// Errors: as read_volume_list(); full.
Result<> add_to_volume_list(Disk& above, const std::vector<std::string>& paths);

}  // namespace penstock
