// The volume's rule for full disks, as far as fragments are concerned. space_guard.h is the real
// one. Thread-safety: all methods from any thread.
#pragma once
#include <cstdint>
#include <functional>

#include "penstock/result.h"

namespace penstock {

class FragmentRoom {
 public:
  virtual ~FragmentRoom() = default;
  // False: no fragment may be begun, wherever it would lie. Cheap.
  virtual bool accepts_data() const = 0;
  // Runs `allocate`, which takes `bytes` of the disk, if the disk may lose so much. Blocks.
  // Errors: full - it may not; what `allocate` answers.
  virtual Result<> grow(std::uint64_t bytes, const std::function<Result<>()>& allocate) = 0;
};

}  // namespace penstock
