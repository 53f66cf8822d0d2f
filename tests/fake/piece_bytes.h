// The bytes of a piece, as a client would get them: from memory, through a socket from pinned
// pages, which are used up by that, or from its file.
#pragma once
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "penstock/volume_client.h"

namespace penstock {

inline std::string sent_bytes(PinnedPages& pages) {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  std::string got;
  std::vector<char> step(64 * 1024);
  ssize_t taken = 0;
  do {
    const ssize_t sent = pages.left() > 0 ? pages.send(ends[0], pages.left()) : 0;
    CHECK((sent >= 0 || errno == EAGAIN));
    taken = ::recv(ends[1], step.data(), step.size(), 0);
    if (taken > 0) got.append(step.data(), static_cast<std::size_t>(taken));
  } while (taken > 0);
  for (const int end : ends) ::close(end);
  return got;
}

inline std::string piece_bytes(const Piece& piece) {
  if (piece.pages) return sent_bytes(*piece.pages);
  if (piece.fd < 0) return std::string(as_text(piece.bytes()));
  std::string bytes(piece.length, '\0');
  const auto got =
      ::pread(piece.fd, bytes.data(), bytes.size(), static_cast<off_t>(piece.file_offset));
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return bytes;
}

}  // namespace penstock
