// The map as etcd keeps it: its canonical text while that is short, so that people can read it;
// compressed (zlib) when it is longer. Pure. Thread-safety: any thread.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "penstock/result.h"

namespace penstock {

inline constexpr std::size_t kPlainMapBytesMax = 64 << 10;
// Of what is stored: etcd takes 1.5 MiB in a request, of which base64 and the rest need their part.
inline constexpr std::size_t kPackedMapBytesMax = 1 << 20;

// Errors: invalid - longer than kPackedMapBytesMax also when compressed.
Result<std::string> pack_map(std::string_view text);
// Errors: corrupt - it was not packed by pack_map(), or is longer than 64 MiB.
Result<std::string> unpack_map(std::string_view stored);

}  // namespace penstock
