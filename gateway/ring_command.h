// `penstock ring`: shows and changes the volumes of a running store, through the socket in its
// directory. Prints for people; returns the exit code: 0, or 1 with a line on stderr that says what
// to do.
#pragma once
#include <string>

namespace penstock {

// `json`: the answer as it is.
int show_ring_status(const std::string& directory, bool json);
// `wait`: until the store is through with it, telling how far it is.
int replace_ring_volume(const std::string& directory, const std::string& volume,
                        const std::string& with, bool wait);

}  // namespace penstock
