// The bytes between two processes, whatever carries them: a TCP connection, or memory in tests.
// Thread-safety: none; lives on one executor. One receive() and one send() at a time, side by side.
#pragma once
#include <cstddef>
#include <span>

#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

// Errors of both calls: aborted - the connection is broken or closed.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // One byte at least, into `buffer`; 0: the peer has ended its side.
  virtual Task<std::size_t> receive(MutBytes buffer) = 0;
  // All of them, one after another. They stay where they are until it returns.
  virtual Task<> send(std::span<const ConstBytes> parts) = 0;
  // Ends both sides at once. Calls under way end with `aborted`, soon; the stream must live until
  // then.
  virtual void close() = 0;
};

}  // namespace penstock
