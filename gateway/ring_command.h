// `penstock ring`: shows and changes the volumes of a running store, through the socket in its
// directory. Prints for people. Returns the exit code: 0; kExitTrouble; or 1 after a line on
// standard error that says what to do.
#pragma once
#include <string>

namespace penstock {

inline constexpr int kExitTrouble = 4;  // it was found out that something is to be done

// `json`: for programs; "ok" is true where the exit code is 0. kExitTrouble: the store is not
// whole, or takes no writes.
int show_ring_status(const std::string& directory, bool json);
// `wait`: until the replacement has ended, printing its progress.
int replace_ring_volume(const std::string& directory, const std::string& volume,
                        const std::string& with, bool wait);

}  // namespace penstock
