#include "penstock/pinned_pages.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

namespace penstock {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::atomic<unsigned> pipes_made{0};  // of all threads: in use or kept
std::atomic<unsigned> pipes_max{PinnedPages::kPipesMax};

}  // namespace

// Pipes that a thread keeps for its next pieces: to make one costs as much as to send a small one.
class PinnedPages::Pipes {
 public:
  static Pipes& of_this_thread() {
    thread_local Pipes pipes;
    return pipes;
  }
  ~Pipes() {
    while (count_ > 0) close(kept_[--count_]);
  }
  // read_end < 0: there is none to be had.
  Pipe get() {
    if (count_ > 0) return kept_[--count_];
    if (pipes_made.fetch_add(1, std::memory_order_relaxed) >= pipes_max.load()) return forget({});
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return forget({});
    const Pipe pipe{ends[0], ends[1]};
    if (::fcntl(pipe.write_end, F_SETPIPE_SZ, static_cast<int>(kBytesMax)) >= 0) return pipe;
    close(pipe);  // the pages of all pipes of this user have a bound
    return {};
  }
  void put(Pipe pipe, bool is_empty) {
    if (is_empty && count_ < kept_.size()) {
      kept_[count_++] = pipe;
    } else {
      close(pipe);
    }
  }

 private:
  static Pipe forget(Pipe pipe) {
    pipes_made.fetch_sub(1, std::memory_order_relaxed);
    return pipe;
  }
  static void close(Pipe pipe) {
    ::close(pipe.read_end);
    ::close(pipe.write_end);
    forget(pipe);
  }
  std::array<Pipe, kKeptMax> kept_;
  std::size_t count_ = 0;
};

void PinnedPages::allow(unsigned most) { pipes_max.store(most); }

std::unique_ptr<PinnedPages> PinnedPages::make() {
  const Pipe pipe = Pipes::of_this_thread().get();
  if (pipe.read_end < 0) return nullptr;
  return std::unique_ptr<PinnedPages>(new PinnedPages(pipe));
}

PinnedPages::~PinnedPages() { Pipes::of_this_thread().put(pipe_, left_ == 0); }

bool PinnedPages::fits(std::uint64_t offset, std::size_t length) {
  return length > 0 && offset % kPageBytes + length <= kBytesMax;
}

bool PinnedPages::pin(int file, std::uint64_t offset, std::size_t length) {
  auto position = static_cast<off_t>(offset);
  while (left_ < length) {
    const ssize_t moved = ::splice(file, &position, pipe_.write_end, nullptr, length - left_,
                                   SPLICE_F_NONBLOCK);  // of the pipe, which has room
    if (moved > 0) {
      left_ += static_cast<std::size_t>(moved);
    } else if (moved == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

ssize_t PinnedPages::send(int socket, std::size_t most) {
  const ssize_t sent =
      ::splice(pipe_.read_end, nullptr, socket, nullptr, std::min(most, left_), SPLICE_F_NONBLOCK);
  if (sent > 0) left_ -= static_cast<std::size_t>(sent);
  return sent;
}

}  // namespace penstock
