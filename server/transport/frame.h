// Frames (wire.h) read from and written to a stream of bytes.
// Thread-safety: none; one executor, that of the stream.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/runtime.h"
#include "penstock/wakeup.h"
#include "server/transport/byte_stream.h"
#include "server/transport/wire.h"

namespace penstock {

struct FrameHead {
  wire::Header header;
  std::string fields;
};

// What a reader takes in; more is refused before any memory is there for it.
struct FrameBounds {
  std::size_t fields_bytes = wire::kFieldsBytesMax;
  std::size_t payload_bytes = wire::kPayloadBytesMax;
};

// Errors of all: aborted - the stream's; corrupt - no frame, or one over the bounds: nothing that
// follows can be told apart any more.
class FrameReader {
 public:
  // Ownership: borrows both.
  FrameReader(ByteStream& stream, BufferPool& buffers);

  // The next frame up to its payload; nullopt: the peer has ended its side between two frames.
  // Pre: the payload of the last one was read or skipped.
  Task<std::optional<FrameHead>> read_head(FrameBounds bounds);
  // The same in two steps, for who asks for memory between them. Pre of the second: the header is
  // that of the first, whose fields are not read yet.
  Task<std::optional<wire::Header>> read_header(FrameBounds bounds);
  Task<FrameHead> read_fields(const wire::Header& header);
  // Empty if none was announced.
  Task<Buffer> read_payload();
  Task<> skip_payload();
  // Instead of read_fields() and read_payload().
  Task<> skip_frame(const wire::Header& header);
  // The peer is known: from now on much is read at once.
  void grow() { in_.resize(kInBytes); }
  // Does it wait for bytes of a frame whose first ones are here?
  bool waits_within() const { return waits_within_; }
  // Bytes that have come, in all.
  std::uint64_t received() const { return received_; }

 private:
  static constexpr std::size_t kInBytes = 64 * limits::kKiB;
  static constexpr std::size_t kStrangerBytes = 4 * limits::kKiB;
  // What of a long payload comes with its head is copied, the rest comes into its place: so where
  // such ones come, less is read at once.
  static constexpr std::size_t kLongPayload = 64 * limits::kKiB;
  static constexpr std::size_t kBesideLong = 16 * limits::kKiB;
  static constexpr int kFramesBesideLong = 16;
  std::size_t buffered() const { return end_ - begin_; }
  Task<bool> fill(std::size_t bytes, bool within);
  std::string take(std::size_t bytes);
  Task<> read_into(MutBytes target);

  ByteStream& stream_;
  BufferPool& buffers_;
  std::vector<std::byte> in_;
  std::size_t begin_ = 0;  // of what was received and not looked at yet
  std::size_t end_ = 0;
  bool waits_within_ = false;
  std::uint64_t received_ = 0;
  std::size_t payload_left_ = 0;
  int beside_long_ = 0;                       // so many more frames
  std::optional<std::uint32_t> payload_crc_;  // nullopt: whoever reads it checks its blocks
};

// One frame on its way out. `keepalive` lives until the bytes were sent, or never will be.
struct OutFrame {
  std::string head;  // header and fields
  Buffer payload;
  FileRange file;  // instead of it
  // A request: its header says how long its caller still waits when it leaves.
  std::optional<BootTime> deadline;
  std::shared_ptr<const void> keepalive;
  std::shared_ptr<const void> source;  // of the file: lives as long
  // Told if the file could not be read to its end, when other bytes stand in for the rest.
  std::function<void(const Error&)> file_failed{};
  std::size_t bytes() const { return head.size() + payload.size() + file.length; }
};
// Of a request: milliseconds, one at least and at most limits::kCallPatienceMax.
std::uint32_t patience_of(BootTime deadline, BootTime now);
// Set the lengths of `header`, and its checksums but for a payload with block checksums. Of a piece
// in a file: pre: it has them.
OutFrame make_frame(wire::Header header, std::string_view fields, Buffer payload = {});
OutFrame make_frame(wire::Header header, std::string_view fields, const Piece& piece);

// Sends frames in the order in which they were pushed, several in one go where they wait. The bytes
// of a file that cannot be read are replaced by others: whoever gets them finds that the checksums
// of their blocks do not match, and what is behind them can be told apart.
class FrameSender {
 public:
  // Ownership: borrows it.
  // `clock`: of the deadlines of frames that have one; may be null if none has.
  explicit FrameSender(ByteStream& stream, Clock* clock = nullptr)
      : stream_(stream), clock_(clock) {}

  // What take_back() names it by; 0: closed, it was dropped.
  using Ticket = std::uint64_t;
  Ticket push(OutFrame frame);
  // True: no byte of it was sent, nor will be. False: some may have been.
  bool take_back(Ticket ticket);
  // Has the stream taken all of its bytes?
  bool has_left(Ticket ticket) const { return ticket <= last_left_; }
  // Of frames that were pushed and whose bytes have not all gone.
  std::size_t waiting_bytes() const { return waiting_bytes_; }
  // Grows while the peer takes what is sent.
  std::uint64_t sends_ended() const { return sends_ended_; }

  // Sends until close(), or until the stream fails: then with its error.
  Task<> run();
  // Drops what waits; run() ends when the stream does.
  void close();

 private:
  struct Waiting {
    Ticket ticket;
    OutFrame frame;
  };
  std::vector<OutFrame> take_some(Ticket& last);
  void stamp_patience(OutFrame& frame);
  Task<> send(const std::vector<OutFrame>& frames);
  Task<> send_file(const OutFrame& frame);
  Task<> send_filler(std::size_t bytes);

  ByteStream& stream_;
  Clock* const clock_;
  std::deque<Waiting> queue_;
  Ticket last_ticket_ = 0;
  Ticket last_left_ = 0;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t sends_ended_ = 0;
  bool closed_ = false;
  Wakeup pushed_;
  std::vector<ConstBytes> parts_;  // of send()
};

}  // namespace penstock
