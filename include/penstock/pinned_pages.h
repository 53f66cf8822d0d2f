// Pages of a file that are held until they are sent: a pipe(2) keeps references to the pages
// themselves (splice(2)), so no byte is copied. While it holds them they cannot be evicted and read
// again, however slow the reader is, and sending them waits for no disk. Only who writes to these
// bytes of the file meanwhile changes them. sendfile(2) costs as much, and gives neither.
// Thread-safety: one thread at a time.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace penstock {

class PinnedPages {
 public:
  // Of the pages that the bytes are in: as much as a pipe holds that everybody may make.
  static constexpr std::size_t kBytesMax = 1024 * 1024;
  // At most so many in a process, or as many as allow() says; each has two descriptors.
  static constexpr unsigned kPipesMax = 64;
  // Of these a thread that has sent its pages keeps so many for its next ones.
  static constexpr unsigned kKeptMax = 16;
  static void allow(unsigned pipes_max);  // any thread; of those that are made from now on

  // Without any page yet. Null: there are too many, or no descriptors.
  static std::unique_ptr<PinnedPages> make();
  ~PinnedPages();
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;

  // Do these bytes fit?
  static bool fits(std::uint64_t offset, std::size_t length);
  // Pins `length` bytes of `file` from `offset` on, and waits for those that are not in memory.
  // False: not all are pinned; it is of no use any more. Pre: it has no pages; fits().
  bool pin(int file, std::uint64_t offset, std::size_t length);
  std::size_t left() const { return left_; }
  // Sends at most `most` of what is left. As send(2): how many, or -1 and errno. SIGPIPE must be
  // ignored. Pre: something is left.
  ssize_t send(int socket, std::size_t most);

 private:
  struct Pipe {
    int read_end = -1, write_end = -1;
  };
  class Pipes;
  explicit PinnedPages(Pipe pipe) : pipe_(pipe) {}

  Pipe pipe_;
  std::size_t left_ = 0;
};

}  // namespace penstock
