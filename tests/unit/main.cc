#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

// LevelDB's library is not built with ThreadSanitizer, which therefore does not see the atomics
// that order its lock-free reads, only the memory calls that it makes: races found there are none.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:libleveldb\n"; }
