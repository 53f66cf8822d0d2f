// Bytes on their way into a blob, as a gateway copies them in.
#pragma once
#include <algorithm>
#include <cstring>
#include <string_view>

#include "server/blobs/blob_writer.h"

namespace penstock {

// Pre: `text` stays. Errors: as BlobWriter.
inline Task<> write_text(BlobWriter& writer, std::string_view text) {
  while (!text.empty()) {
    CO_TRY(space, co_await writer.space());
    const std::size_t count = std::min(space.size(), text.size());
    std::memcpy(space.data(), text.data(), count);
    CO_CHECK(co_await writer.filled(count));
    text.remove_prefix(count);
  }
  co_return Result<>{};
}

}  // namespace penstock
