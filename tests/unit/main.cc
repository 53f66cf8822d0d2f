#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

// LevelDB's library is not built with ThreadSanitizer, which therefore does not see the atomics
// that order its lock-free reads; only the memcpy and memcmp that it calls. Ours are judged.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:libleveldb\n"; }
