// Whether the directories of a store become a new one at this start, and how. Only if none holds
// anything of a cluster; several only if somebody asked for it: were all of them empty because
// their disks are not mounted yet, the store would end on the wrong disk. first_format.h says what
// a cut leaves. Thread-safety: none; a start does it. Blocks.
#pragma once
#include "penstock/runtime.h"
#include "placement/cluster_map.h"
#include "server/node/store_directories.h"

namespace penstock {

// Ownership: borrows all.
struct StoreFormat {
  const StoreDirectories& directories;
  bool asked = false;                    // several directories may become a store
  const LayoutPolicy* policy = nullptr;  // of a new cluster; null: by the number of volumes
  Clock& clock;
  Random& random;
};

// True: they have become a new store. Pre: none of them hangs.
// Errors: invalid - they must not, or it is no place for volumes; corrupt; io; full. The context
// says what to do.
Result<bool> format_if_new(const StoreFormat& store);

}  // namespace penstock
