#include "server/transport/byte_stream.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "penstock/limits.h"

namespace penstock {
namespace {

constexpr std::size_t kStepBytes = 256 * limits::kKiB;

}  // namespace

// For streams that cannot take bytes from a file by themselves.
Task<> ByteStream::send_file(FileRange range) {
  std::vector<std::byte> step(std::min(range.length, kStepBytes));
  while (range.length > 0) {
    const std::size_t wanted = std::min(range.length, step.size());
    const ssize_t got = ::pread(range.fd, step.data(), wanted, static_cast<off_t>(range.offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) co_return fail(Errc::aborted, "connection: a file ends too early");
    const auto bytes = static_cast<std::size_t>(got);
    const std::array<ConstBytes, 1> parts{ConstBytes(step.data(), bytes)};
    CO_CHECK(co_await send(parts));
    range.offset += bytes;
    range.length -= bytes;
  }
  co_return Result<>{};
}

}  // namespace penstock
