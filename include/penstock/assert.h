// Asserts that stand in every build: a store that goes on behind a broken invariant loses data.
//
// PENSTOCK_ASSERT is for what costs next to nothing where it stands. PENSTOCK_ASSERT_DEAR is for
// walks over a whole structure: it is checked in the builds for sanitizers and planted faults only,
// so what it says must have no effect.
// Never for what a client, a disk or another process can bring about: that is an error.
// Thread-safety: any thread. Prints what does not hold, with its place, to stderr, and aborts.
#pragma once

namespace penstock {
[[noreturn]] void assert_failed(const char* condition, const char* file, int line) noexcept;
}  // namespace penstock

#define PENSTOCK_ASSERT(...)                             \
  (static_cast<bool>(__VA_ARGS__) ? static_cast<void>(0) \
                                  : ::penstock::assert_failed(#__VA_ARGS__, __FILE__, __LINE__))

#ifdef PENSTOCK_DEAR_ASSERTS
#define PENSTOCK_ASSERT_DEAR(...) PENSTOCK_ASSERT(__VA_ARGS__)
#else
#define PENSTOCK_ASSERT_DEAR(...) static_cast<void>(sizeof(static_cast<bool>(__VA_ARGS__)))
#endif
