#include "penstock/assert.h"

#include <cstdio>
#include <cstdlib>

#include "penstock/log.h"

namespace penstock {

void assert_failed(const char* condition, const char* file, int line) noexcept {
  flush_log();  // what came before
  std::fprintf(stderr, "%s:%d: this must hold: %s\n", file, line, condition);
  std::abort();
}

}  // namespace penstock
