// The same work on many directories, a few at a time, each on a thread of its own: what waits for
// disks and little else.
#pragma once
#include <cstddef>
#include <functional>

#include "penstock/result.h"

namespace penstock {

// Calls work(0) … work(count - 1), at most `at_once` of them at a time. With 1 they run here, in
// order. After an error no other begins; those under way end. Blocks.
// Errors: that of the lowest index that failed; io - one has thrown.
Result<> run_side_by_side(std::size_t count, std::size_t at_once,
                          const std::function<Result<>(std::size_t index)>& work);

}  // namespace penstock
