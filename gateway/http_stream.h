// One connection's socket: reads and writes that try first, wait second, and never wait without a
// deadline.
//
// Bytes move between the socket and the caller's memory (or file) directly. Waiting time is charged
// to the peer, and only while it moves fewer bytes than the minimum rate; time that this process
// needs is not. Errors of every call: timeout - the deadline or the minimum rate; aborted - the
// peer is gone; shutting_down - stop(). Thread-safety: none; lives and dies on its I/O thread.
#pragma once
#include <boost/asio/ip/tcp.hpp>

#include "gateway/http_deadlines.h"
#include "gateway/http_options.h"
#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

// How long a peer has kept us waiting for a window's worth of bytes.
class Pace {
 public:
  Pace(Duration patience, std::uint64_t bytes_per_second_min)
      : patience_(patience), patience_left_(patience) {
    const auto seconds = std::max<std::int64_t>(patience / std::chrono::seconds(1), 1);
    window_bytes_ =
        std::max<std::uint64_t>(bytes_per_second_min * static_cast<std::uint64_t>(seconds), 1);
    bytes_left_ = window_bytes_;
  }
  Duration patience_left() const { return std::max(patience_left_, Duration(1)); }
  void waited(Duration time) { patience_left_ -= time; }
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

class HttpStream final : private DeadlineWheel::Entry {
 public:
  using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Executor>;

  // Ownership: takes the socket, borrows the rest.
  HttpStream(Socket socket, DeadlineWheel& wheel, const HttpOptions& options);

  // Waits for the first bytes of something, at most `patience`. 0: the peer has ended its side.
  Task<std::size_t> receive_within(MutBytes buffer, Duration patience);
  // Bytes of a body, at the body's pace: fills `first`, then `second`, in one system call. 0: the
  // peer has ended its side.
  Task<std::size_t> receive(MutBytes first, MutBytes second);
  // What is there already; nullopt: nothing.
  std::optional<Result<std::size_t>> receive_now(MutBytes first, MutBytes second);
  // A new body begins: earlier slowness is forgiven.
  void restart_pace();

  // Sends both, gathered. `more`: further bytes follow at once, so the last packet may wait for
  // them.
  Task<> send(ConstBytes first, ConstBytes second, bool more);
  // Sends a range of a file without copying it through this process.
  Task<> send_file(int fd, std::uint64_t offset, std::size_t length);

  // Ends our side and reads on for a while, so that an answer to a request that we did not read to
  // its end is not destroyed by a reset. Afterwards only close() makes sense.
  Awaitable<void> linger();
  // Ends every wait, now and later, with shutting_down.
  void stop();
  void close();

 private:
  void on_deadline() override;
  Error wait_error(const boost::system::error_code& error) const;
  Task<> wait_writable();
  // After each few MiB the thread's other connections get a turn.
  bool turn_is_over(std::size_t bytes);
  Awaitable<void> let_others_run();

  Socket socket_;
  DeadlineWheel& wheel_;
  Pace receive_pace_;
  Pace send_pace_;
  Duration linger_;
  std::size_t turn_bytes_ = 0;
  bool expired_ = false;
  bool stopped_ = false;
};

}  // namespace penstock
