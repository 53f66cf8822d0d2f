// The caller's end of one connection: many calls at a time, answered in any order.
//
// A call ends with its answer, at its deadline, or with the connection. Of a call whose frame has
// begun to leave, the last two mean that nobody knows what became of it: `timeout`. One that never
// left is `unavailable`: it was not done. An answer that comes later is dropped.
// Thread-safety: none; lives on the stream's executor, whose coroutines make the calls.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "penstock/async.h"
#include "penstock/buffer.h"
#include "penstock/limits.h"
#include "penstock/runtime.h"
#include "server/transport/byte_line.h"
#include "server/transport/call_counters.h"
#include "server/transport/connection_changes.h"
#include "server/transport/frame.h"

namespace penstock {

// The map that a process is at; its frames carry it.
struct MapStamp {
  Epoch epoch;
  std::array<unsigned char, 16> digest{};
  bool operator==(const MapStamp&) const = default;
};

struct Call {
  wire::Operation operation = wire::Operation::status;
  VolumeId volume;
  std::uint64_t id = 0;  // of new_id(); 0: it gets one
  std::string fields;
  Buffer payload;
  Deadline deadline;
};
struct CallAnswer {
  std::string fields;
  Buffer payload;
};

// Ownership: borrows; they outlive the connection.
struct CallParts {
  Clock& clock;
  BufferPool& buffers;
  std::function<MapStamp()> stamp;                    // may be empty
  std::function<void(const MapStamp& peer)> heard{};  // of each answer; may be empty
  std::function<void(bool leaving)> heard_leaving{};  // likewise
  std::string peer_name{};                            // for errors
  std::uint64_t features = 0;                         // that the peer knows, too
  std::shared_ptr<CallCounters> counters{};           // may be null
  std::shared_ptr<ConnectionChanges> changes{};       // counts its end; may be null
};

class CallConnection : public std::enable_shared_from_this<CallConnection> {
 public:
  // `reader` is behind the hello; it reads from `stream`.
  CallConnection(std::unique_ptr<ByteStream> stream, std::unique_ptr<FrameReader> reader,
                 CallParts parts);

  // Serves the calls until the connection ends, for whatever reason: then with it.
  Task<> run();
  // Ends it; again: nothing.
  void close(Error reason);

  // Errors: those that the peer answers; timeout; unavailable - closed, or not sent in time, or the
  // peer stops and would refuse it: only the next steps of fragments are sent then;
  // overloaded - too many calls, or too many of their bytes, are under way.
  Task<CallAnswer> call(Call call);
  // Sends what is short and has no answer. Dropped if the connection has ended.
  void tell(Call call) { (void)push(std::move(call)); }
  // Never one that was in use on this connection: an answer that comes late finds nobody.
  std::uint64_t new_id();
  std::size_t calls_under_way() const { return pending_.size(); }
  // Of the pieces of fragments that were sent, until they are answered: whoever writes has room
  // here before he sends one, so that the server, which has more, refuses none of them.
  ByteLine& sent_pieces() { return *sent_pieces_; }

 private:
  struct Pending {
    Completion<CallAnswer> done;
    FrameSender::Ticket ticket = 0;
    BootTime deadline;
    wire::Operation operation;
    BootTime began;
  };
  Result<> room_for(const Call& call) const;
  OutFrame frame_of(Call& call) const;
  void begin(Call& call, Completion<CallAnswer> done);
  void end(std::uint64_t id, Result<CallAnswer> answer, CallOutcome outcome);
  void end_unanswered(std::uint64_t id, bool sent, std::string_view why);
  Task<> read_answers();
  void hear_farewell();
  Task<> take_answer(FrameHead head);
  void end_overdue();
  FrameSender::Ticket push(Call call);
  void note_progress();
  bool is_ping_there(const SendProgress& now);
  bool is_silent_for(Duration time) const;
  void watch_silence();
  BootTime next_look() const;
  static Awaitable<void> run_sender(std::shared_ptr<CallConnection> self);
  static Awaitable<void> run_watch(std::shared_ptr<CallConnection> self);
  Error lost(bool sent, std::string_view why) const;

  const std::unique_ptr<ByteStream> stream_;
  const std::unique_ptr<FrameReader> reader_;
  const CallParts parts_;
  FrameSender sender_;
  const std::shared_ptr<ByteLine> sent_pieces_ = std::make_shared<ByteLine>(
      ByteLine::Bounds{limits::kSentPieceBytesPerConnection, limits::kSentPieceBytesPerVolume});
  std::unordered_map<std::uint64_t, Pending> pending_;
  std::set<std::pair<BootTime, std::uint64_t>> deadlines_;  // of the pending calls
  std::uint64_t last_id_ = 0;
  std::optional<BootTime> asked_at_;  // the first call since anything came
  std::uint64_t received_ = 0;        // bytes, by the last look
  // A question whether anybody is there, since then. As long as it is on its way, what is before it
  // counts as well.
  struct Ping {
    FrameSender::Ticket ticket = 0;
    std::optional<std::uint64_t> end;  // where it ends in the stream, or a little behind
    std::uint64_t taken = 0;           // by the peer's host, by the last look
    bool there = false;                // it has come to the peer's host
    BootTime moved_at = BootTime::min();
  };
  std::optional<Ping> ping_;
  std::optional<Error> closed_;
  bool peer_stops_ = false;
  // What the watch sleeps for; max: until there is a call.
  BootTime watched_until_ = BootTime::min();
  Wakeup watch_;
};

}  // namespace penstock
