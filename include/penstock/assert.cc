#include "penstock/assert.h"

#include <cstdio>
#include <cstdlib>

namespace penstock {

void assert_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: this must hold: %s\n", file, line, condition);
  std::abort();
}

}  // namespace penstock
