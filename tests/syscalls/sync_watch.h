// Watches the system calls of this very program and knows what a power cut would take: bytes and
// names that were written and not yet synced. It stands in front of the C library's functions
// (sync_watch.cc), below everything that the product has above them: so it sees what the program
// really asks of the kernel, not what it believes.
//
// Counted: writes, truncations, allocations of a file until fdatasync or fsync of any descriptor of
// it; names that were created or renamed until fsync of their directory. Not counted: removals (a
// name that comes back is dealt with by each start), descriptors that are no files. Thread-safety:
// all from any thread.
#pragma once
#include <string>
#include <vector>

namespace penstock::syscalls {

// Paths below `directory` with bytes or names (of a directory) that a power cut may take now.
std::vector<std::string> unsynced(const std::string& directory);
// Calls that wrote through a descriptor opened with O_DIRECT, since the program began.
unsigned long direct_writes();

}  // namespace penstock::syscalls
