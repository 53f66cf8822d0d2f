// One fragment on its way to the disk. Internal to server/volume; the contract is that of
// FragmentWriter.
//
// Steps, and what a crash after each leaves:
//   1. space reserved in memory (a file: temporary name)   nothing; the start removes the file
//   2. pieces written, the last with table and footer      bytes in free space that no row names
//   3. row put and bytes synced, in parallel               the row alone: its footer fails,
//                                                          reads say `corrupt`, the sweep removes
//                                                          it; the bytes alone: as 2.
//   4. commit() returns                                    the fragment
#pragma once
#include <memory>

#include "server/volume/fragments/fragment_core.h"

namespace penstock {

// Errors: full; unavailable; io.
Task<std::unique_ptr<FragmentWriter>> open_fragment_writer(std::shared_ptr<FragmentCore> core,
                                                           FragmentId id, FragmentShape shape,
                                                           Deadline deadline);

}  // namespace penstock
