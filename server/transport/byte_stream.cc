#include "server/transport/byte_stream.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

#include "penstock/limits.h"

namespace penstock {
namespace {

constexpr std::size_t kStepBytes = 256 * limits::kKiB;

}  // namespace

Error file_failure(int error) {
  if (error == 0) return fail(Errc::io, "sending a file: it ends too early");
  return fail(Errc::io, "sending a file: " + std::generic_category().message(error));
}

// For streams that cannot take bytes from a file by themselves.
Task<FileSent> ByteStream::send_file(FileRange range) {
  std::vector<std::byte> step(std::min(range.length, kStepBytes));
  FileSent done;
  while (range.length > 0) {
    const std::size_t wanted = std::min(range.length, step.size());
    const ssize_t got = ::pread(range.fd, step.data(), wanted, static_cast<off_t>(range.offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      done.failure = file_failure(got < 0 ? errno : 0);
      co_return done;
    }
    const auto bytes = static_cast<std::size_t>(got);
    const std::array<ConstBytes, 1> parts{ConstBytes(step.data(), bytes)};
    CO_CHECK(co_await send(parts));
    range.offset += bytes;
    range.length -= bytes;
    done.bytes += bytes;
  }
  co_return done;
}

}  // namespace penstock
