// One connection's socket: reads and writes that try first, wait second, and never wait without a
// deadline.
//
// Bytes move between the socket and the caller's memory (or file) directly. Of a body that comes
// in, waiting time is charged to the peer, and only while it moves fewer bytes than the minimum
// rate; time that this process needs is not. What goes out counts when the peer's host has taken
// it, not when the kernel here has: a reader may be slow, and may pause for minutes. Errors of
// every call: timeout - the deadline or the minimum rate; aborted - the peer is gone;
// shutting_down - stop(). Thread-safety: none; lives and dies on its I/O thread.
#pragma once
#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gateway/http/http_deadlines.h"
#include "gateway/http/http_options.h"
#include "penstock/pinned_pages.h"
#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

// How long a peer has kept us waiting for a window's worth of bytes.
class StreamPace {
 public:
  StreamPace(Duration patience, std::uint64_t bytes_per_second_min)
      : patience_(patience), patience_left_(patience) {
    const auto seconds = std::max<std::int64_t>(patience / std::chrono::seconds(1), 1);
    window_bytes_ =
        std::max<std::uint64_t>(bytes_per_second_min * static_cast<std::uint64_t>(seconds), 1);
    bytes_left_ = window_bytes_;
  }
  Duration patience_left() const { return std::max(patience_left_, Duration(1)); }
  void waited(Duration time) { patience_left_ -= time; }
  bool has_patience() const { return patience_left_ > Duration(0); }
  void moved(std::uint64_t bytes) {
    if (bytes < bytes_left_) {
      bytes_left_ -= bytes;
      return;
    }
    restart();
  }
  void restart() {
    patience_left_ = patience_;
    bytes_left_ = window_bytes_;
  }

 private:
  Duration patience_;
  Duration patience_left_;
  std::uint64_t window_bytes_;
  std::uint64_t bytes_left_;
};

// Why a connection ends before its peer or its request does.
inline constexpr const char* kServerStops = "connection: the server stops";
inline constexpr const char* kPlaceNeeded = "connection: another one needs its place";

// Whoever wants to know that the peer takes nothing.
class PauseListener {
 public:
  virtual ~PauseListener() = default;
  // For longer than a moment; called again when it took some and stopped again.
  virtual void paused() = 0;
  virtual void resumed() = 0;
};

class HttpStream final : private DeadlineWheel::Entry {
 public:
  using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Executor>;

  // Ownership: takes the socket, borrows the rest. `listener` may be null.
  HttpStream(Socket socket, DeadlineWheel& wheel, const HttpOptions& options,
             PauseListener* listener);

  // Waits for the first bytes of something, at most `patience`. 0: the peer has ended its side.
  Task<std::size_t> receive_within(MutBytes buffer, Duration patience);
  // Bytes of a body, at the body's pace: fills `first`, then `second`, in one system call. 0: the
  // peer has ended its side.
  Task<std::size_t> receive(MutBytes first, MutBytes second);
  // Waits until there is something to receive, or the peer has ended its side.
  Task<> wait_readable(Duration patience);
  // What is there already; nullopt: nothing.
  std::optional<Result<std::size_t>> receive_now(MutBytes first, MutBytes second);
  // A new body begins: earlier slowness is forgiven.
  void restart_pace();

  // Sends both, gathered. Errors: timeout - the peer took nothing for options.document_pause.
  Task<> send(ConstBytes first, ConstBytes second);
  // For what can be fetched again: as send(), but returns early, with how many bytes of both were
  // sent, when the peer takes nothing for options.reader_stalled. `more`: further bytes follow at
  // once, so the last packet may wait for them.
  Task<std::size_t> send_while_taken(ConstBytes first, ConstBytes second, bool more);
  // The same for pages of a file, without copying them through this process.
  Task<std::size_t> send_pages_while_taken(PinnedPages& pages);
  // What was sent so far may still be in the file's pages: `keepalive` stays until the peer's host
  // has all of it, at the earliest, and goes with a later call or with this stream.
  void keep_until_taken(std::shared_ptr<const void> keepalive);
  void release_taken();  // what is kept no longer
  bool keeps() const { return !kept_.empty(); }
  // Waits until the peer takes bytes again, at most `most`. False: not yet. Errors: timeout - it
  // took nothing for options.reader_pause.
  Task<bool> wait_for_room(Duration most) { return wait_for_room(most, options_.reader_pause); }
  // Whether the peer's host took some of what was sent since the last look, and has yet to take
  // more.
  bool peer_goes_on();

  // Ends our side and reads on for a while, so that an answer to a request that we did not read to
  // its end is not destroyed by a reset. Afterwards only close() makes sense.
  Awaitable<void> linger();
  // Whether something was sent that nobody has received yet.
  bool has_bytes();
  // Ends the wait under way with shutting_down, unless what it waits for comes all the same.
  void end_wait();
  // Ends every wait, now and later, with shutting_down and this reason, which lives for ever.
  void stop(const char* reason);
  void close();

 private:
  void on_deadline() override;
  enum class Push : std::uint8_t { done, blocked, turn_over };

  void start_wait(Duration most);
  Error wait_error(const boost::system::error_code& error) const;
  Result<Push> push(ConstBytes& first, ConstBytes& second, bool more);
  Result<Push> push_pages(PinnedPages& pages);
  void sent(std::size_t bytes);
  std::uint64_t taken_now();  // of sent_bytes_, by the peer's host
  void bound_unsent(bool bounded);
  bool look_at_peer();
  // False: not within `most`.
  Task<bool> wait_writable(Duration most);
  Task<bool> wait_for_room(Duration most, Duration pause_max);
  // After each few MiB the thread's other connections get a turn.
  bool turn_is_over(std::size_t bytes);
  Awaitable<void> let_others_run();

  Socket socket_;
  DeadlineWheel& wheel_;
  const HttpOptions& options_;
  PauseListener* listener_;
  StreamPace receive_pace_;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  std::uint64_t unbound_at_ = kNever;  // sent_bytes_ of a peer that is taken for one that reads
  std::uint64_t sent_bytes_ = 0;       // given to the kernel
  std::uint64_t taken_bytes_ = 0;      // of them, by the peer's host, at the last look
  BootTime taken_at_;                  // when that was less
  struct Kept {
    std::uint64_t end = 0;  // of the bytes, by sent_bytes_
    std::shared_ptr<const void> keepalive;
  };
  std::vector<Kept> kept_;  // no more than fit into the socket's buffer
  std::size_t turn_bytes_ = 0;
  bool paused_ = false;
  bool expired_ = false;
  bool wait_ended_ = false;
  const char* stop_reason_ = nullptr;  // stopped
};

}  // namespace penstock
