// The root pair among the directories of a store: each holds a copy, so that the loss of one disk
// does not lock the owner out.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "gateway/auth/credentials.h"

namespace penstock {

struct RootPlaces {
  std::vector<std::string> directories;  // all that the store was started with
  std::vector<std::string> answering;    // of them: those whose disks have answered so far
  std::vector<std::string> keeping;      // of them: those that get a copy if they have none
  std::chrono::milliseconds patience{};  // for one look at all of them, side by side
};

struct RootPair {
  Account account;
  bool is_new = false;
};
// The first copy that can be read, or else what `make` makes. Copies that are damaged or lost are
// written again; the log names them. No call of a disk is waited for longer than `patience`.
// Errors: those of the copies, if none can be read; unavailable - none was found where one could
// look, and there are directories where one could not; those of writing a new pair.
Result<RootPair> find_root_pair(const RootPlaces& places, const std::function<Account()>& make);

}  // namespace penstock
