// The bytes between two processes, whatever carries them: a TCP connection, TLS on top of one, or
// memory in tests.
// Thread-safety: none; lives on one executor. One receive() and one send() at a time, side by side.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "penstock/result.h"
#include "penstock/types.h"
#include "server/transport/peer_identity.h"

namespace penstock {

// Bytes of an open file.
struct FileRange {
  int fd = -1;
  std::uint64_t offset = 0;
  std::size_t length = 0;
};

// What has become of a part of a file.
struct FileSent {
  std::size_t bytes = 0;           // of it that were sent
  std::optional<Error> failure{};  // why not all of them: the file's, not the connection's
};

// Of a file that gave `error`; 0: it is shorter than it should be.
Error file_failure(int error);

// How far what was sent has come, in bytes of the stream since its beginning.
struct SendProgress {
  std::uint64_t sent = 0;   // taken by what carries them
  std::uint64_t taken = 0;  // of that, by the peer's host
};

// Errors of all calls: aborted - the connection is broken or closed.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // One byte at least, into `buffer`; 0: the peer has ended its side.
  virtual Task<std::size_t> receive(MutBytes buffer) = 0;
  // All of them, one after another. They stay where they are until it returns.
  virtual Task<> send(std::span<const ConstBytes> parts) = 0;
  // `length` bytes of the file from `offset`, as send() would send them, or as many of them as can
  // be read; it blocks where the file is not in memory.
  virtual Task<FileSent> send_file(FileRange range);
  // Ends both sides at once. Calls under way end with `aborted`, soon; the stream must live until
  // then.
  virtual void close() = 0;
  // Never goes back. Zeros: streams of this kind do not know.
  virtual SendProgress progress() const { return {}; }
  // Who the other end has proved to be, once bytes have come; nullopt: streams of this kind prove
  // nothing.
  virtual std::optional<PeerIdentity> peer() const { return std::nullopt; }
};

}  // namespace penstock
