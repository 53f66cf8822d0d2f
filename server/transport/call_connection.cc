#include "server/transport/call_connection.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <vector>

#include "penstock/assert.h"
#include "penstock/caught.h"
#include "penstock/planted.h"
#include "server/transport/call_kinds.h"
#include "server/transport/hello.h"

namespace penstock {
namespace {

constexpr FrameBounds kAnswerBounds;
constexpr Duration kPingAfter = Duration(limits::kPeerSilence) / 2;
constexpr Duration kLookEvery = std::chrono::seconds(1);

constexpr ReportThrown report_end{"a connection to a server"};

}  // namespace

CallConnection::CallConnection(std::unique_ptr<ByteStream> stream,
                               std::unique_ptr<FrameReader> reader, CallParts parts)
    : stream_(std::move(stream)),
      reader_(std::move(reader)),
      parts_(std::move(parts)),
      sender_(*stream_, &parts_.clock) {
  reader_->grow();
}

Error CallConnection::lost(bool sent, std::string_view why) const {
  std::string text = "call to " + parts_.peer_name + ": ";
  text += why;
  const bool unknown = sent ? holds(Rule::lost_call_unknown) : !holds(Rule::unsent_call_known);
  if (unknown) return fail(Errc::timeout, text + "; its outcome is unknown");
  return fail(Errc::unavailable, text + "; it was not sent");
}

std::uint64_t CallConnection::new_id() {
  if (holds(Rule::fresh_request_id)) return ++last_id_;
  std::uint64_t id = 1;
  while (pending_.contains(id)) ++id;
  return id;
}

Result<> CallConnection::room_for(const Call& call) const {
  if (closed_) return lost(false, closed_->context);
  if (peer_stops_ && is_refused_at_stop(call.operation)) {
    return lost(false, "the server stops");
  }
  if (call.fields.size() + wire::kTraceBytes > wire::kFieldsBytesMax) {
    return fail(Errc::invalid, "call to " + parts_.peer_name + ": longer than a frame may be");
  }
  const bool many = pending_.size() >= limits::kCallsPerConnection;
  const std::size_t bytes = sender_.waiting_bytes() + call.fields.size() + call.payload.size();
  if (many || bytes > limits::kCallBytesPerConnection) {
    return fail(Errc::overloaded, "call to " + parts_.peer_name + ": too many are under way");
  }
  if (call.deadline <= parts_.clock.boot()) return lost(false, "its time is over");
  return {};
}

OutFrame CallConnection::frame_of(Call& call) const {
  wire::Header header;
  header.operation = call.operation;
  header.request_id = call.id;
  header.volume = call.volume;
  if (parts_.stamp) {
    const MapStamp stamp = parts_.stamp();
    header.map_epoch = stamp.epoch;
    header.map_digest = stamp.digest;
  }
  header.patience_ms = patience_of(call.deadline, parts_.clock.boot());
  header.block_checksums = call.operation == wire::Operation::append;  // they are in its fields
  const Trace& trace = call.deadline.trace();
  header.traced = !trace.is_zero() && (parts_.features & kFeatureTrace) != 0;
  if (header.traced) wire::append_trace(call.fields, trace);
  OutFrame frame = make_frame(header, call.fields, std::move(call.payload));
  frame.deadline = call.deadline.at();
  return frame;
}

void CallConnection::begin(Call& call, Completion<CallAnswer> done) {
  const BootTime now = parts_.clock.boot();
  if (!asked_at_) asked_at_ = now;
  OutFrame frame = frame_of(call);
  if (parts_.counters) {
    parts_.counters->enter();
    parts_.counters->add_bytes_out(frame.bytes());
  }
  Pending pending{std::move(done), sender_.push(std::move(frame)), call.deadline, call.operation,
                  now};
  const bool fresh = pending_.emplace(call.id, std::move(pending)).second;
  PENSTOCK_ASSERT(fresh);
  deadlines_.emplace(call.deadline.at(), call.id);
  if (call.deadline < watched_until_ || watched_until_ == BootTime::max()) watch_.notify();
}

void CallConnection::end(std::uint64_t id, Result<CallAnswer> answer, CallOutcome outcome) {
  const auto at = pending_.find(id);
  if (at == pending_.end()) return;  // late
  const Pending pending = std::move(at->second);
  pending_.erase(at);
  deadlines_.erase({pending.deadline, id});
  if (parts_.counters) {
    const auto error = answer ? std::nullopt : std::optional<Errc>(answer.error().code);
    const Duration took = parts_.clock.boot() - pending.began;
    parts_.counters->leave();
    parts_.counters->end(pending.operation, outcome, error, took);
  }
  pending.done(std::move(answer));
}

void CallConnection::end_unanswered(std::uint64_t id, bool sent, std::string_view why) {
  end(id, lost(sent, why), sent ? CallOutcome::unknown : CallOutcome::unsent);
}

Task<CallAnswer> CallConnection::call(Call call) {
  if (const Result<> room = room_for(call); !room) {
    if (parts_.counters) parts_.counters->refuse(call.operation, room.error().code);
    co_return room.error();
  }
  if (call.id == 0) call.id = new_id();
  const auto self = shared_from_this();
  auto start = [self, &call](Completion<CallAnswer> done) { self->begin(call, std::move(done)); };
  co_return co_await await_completion<CallAnswer>(std::move(start));
}

FrameSender::Ticket CallConnection::push(Call call) {
  if (closed_) return 0;
  if (call.id == 0) call.id = new_id();
  return sender_.push(frame_of(call));
}

void CallConnection::close(Error reason) {
  if (closed_) return;
  closed_ = std::move(reason);
  if (parts_.changes) parts_.changes->add();
  stream_->close();
  std::vector<std::pair<std::uint64_t, bool>> ends;  // and whether they were sent
  for (const auto& [id, pending] : pending_) {
    ends.emplace_back(id, !sender_.take_back(pending.ticket));
  }
  for (const auto& [id, sent] : ends) end_unanswered(id, sent, closed_->context);
  sender_.close();
  watch_.notify();
}

// What has not left yet would be refused, or meet a connection that has ended.
void CallConnection::hear_farewell() {
  peer_stops_ = true;
  std::vector<std::uint64_t> unsent;
  for (const auto& [id, pending] : pending_) {
    if (is_refused_at_stop(pending.operation) && sender_.take_back(pending.ticket)) {
      unsent.push_back(id);
    }
  }
  for (const std::uint64_t id : unsent) end_unanswered(id, false, "the server stops");
}

Task<> CallConnection::take_answer(FrameHead head) {
  const std::uint64_t id = head.header.request_id;
  if (id == wire::kFarewell && head.header.leaving) hear_farewell();
  if (!pending_.contains(id)) co_return co_await reader_->skip_payload();
  CO_TRY(payload, co_await reader_->read_payload());
  if (!head.header.failed) {
    end(id, CallAnswer{std::move(head.fields), std::move(payload)}, CallOutcome::ok);
    co_return Result<>{};
  }
  CO_TRY(failure, wire::decode_failure(head.fields));
  end(id, std::move(failure.error), CallOutcome::error);
  co_return Result<>{};
}

Task<> CallConnection::read_answers() {
  while (!closed_) {
    CO_TRY(head, co_await reader_->read_head(kAnswerBounds));
    if (!head) co_return fail(Errc::aborted, "the server has closed the connection");
    if (!head->header.reply) co_return fail(Errc::corrupt, "wire: a server that calls");
    asked_at_.reset();
    ping_.reset();
    const wire::Header& header = head->header;
    if (parts_.counters) {
      parts_.counters->add_bytes_in(wire::kHeaderBytes + header.fields_bytes +
                                    header.payload_bytes);
    }
    if (parts_.heard) parts_.heard(MapStamp{header.map_epoch, header.map_digest});
    if (parts_.heard_leaving) parts_.heard_leaving(header.leaving);
    CO_CHECK(co_await take_answer(std::move(*head)));
    if (!pending_.empty() && !asked_at_) asked_at_ = parts_.clock.boot();
  }
  co_return Result<>{};
}

Task<> CallConnection::run() {
  const auto self = shared_from_this();
  const auto executor = co_await boost::asio::this_coro::executor;
  boost::asio::co_spawn(executor, run_sender(self), report_end);
  boost::asio::co_spawn(executor, run_watch(self), report_end);
  Result<> ended = fail(Errc::aborted, "the connection has ended");
  try {
    ended = co_await read_answers();
  } catch (...) {
    ended = error_of_exception("a connection to a server");
  }
  close(ended ? fail(Errc::aborted, "the connection has ended") : ended.error());
  co_return *closed_;
}

Awaitable<void> CallConnection::run_sender(std::shared_ptr<CallConnection> self) {
  Result<> ended = fail(Errc::aborted, "the connection has ended");
  try {
    ended = co_await self->sender_.run();
  } catch (...) {
    ended = error_of_exception("sending to a server");
  }
  if (!ended) self->close(ended.error());
}

void CallConnection::end_overdue() {
  const BootTime now = parts_.clock.boot();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const std::uint64_t id = deadlines_.begin()->second;
    const bool sent = !sender_.take_back(pending_.at(id).ticket);
    end_unanswered(id, sent, "no answer in time");
  }
}

bool CallConnection::is_silent_for(Duration time) const {
  if (!asked_at_) return false;
  const BootTime last = ping_ ? std::max(*asked_at_, ping_->moved_at) : *asked_at_;
  return parts_.clock.boot() - last >= time;
}

// Once it is, it stays so.
bool CallConnection::is_ping_there(const SendProgress& now) {
  if (!ping_->end && sender_.has_left(ping_->ticket)) ping_->end = now.sent;
  ping_->there = ping_->there || (ping_->end && now.taken >= *ping_->end);
  return ping_->there;
}

// A slow link is no silence: part of an answer that comes, or bytes before the ping that the peer's
// host takes. What it takes behind the ping says nothing of the process there.
void CallConnection::note_progress() {
  const BootTime now = parts_.clock.boot();
  const std::uint64_t received = reader_->received();
  if (std::exchange(received_, received) != received && asked_at_) {
    asked_at_ = now;
    ping_.reset();
  }
  if (!ping_) return;
  const SendProgress progress = stream_->progress();
  const std::uint64_t before = std::exchange(ping_->taken, progress.taken);
  if (!is_ping_there(progress) && progress.taken != before) ping_->moved_at = now;
}

// A call may take long where a disk is slow; a ping tells that from a peer that is gone.
void CallConnection::watch_silence() {
  note_progress();
  if (is_silent_for(limits::kPeerSilence) && holds(Rule::peer_silence)) {
    close(fail(Errc::aborted, "the server does not answer"));
  } else if (!ping_ && is_silent_for(kPingAfter)) {
    Call ping;
    ping.operation = wire::Operation::ping;
    ping.deadline = parts_.clock.boot() + Duration(limits::kPeerSilence);
    const FrameSender::Ticket ticket = push(std::move(ping));
    ping_ = Ping{ticket, std::nullopt, stream_->progress().taken};
  }
}

// Never, while nobody waits for anything: most connections rest most of the time.
BootTime CallConnection::next_look() const {
  if (pending_.empty() && !asked_at_) return BootTime::max();
  const BootTime look = next_whole(parts_.clock.boot(), kLookEvery);
  return deadlines_.empty() ? look : std::min(look, deadlines_.begin()->first);
}

// Ends the calls whose time is over, and the connection if nothing comes back any more.
Awaitable<void> CallConnection::run_watch(std::shared_ptr<CallConnection> self) {
  try {
    while (!self->closed_) {
      self->end_overdue();
      self->watch_silence();
      if (self->closed_) break;
      self->watched_until_ = self->next_look();
      if (self->watched_until_ == BootTime::max()) {
        co_await self->watch_.wait();
      } else {
        co_await self->watch_.wait(self->parts_.clock, self->watched_until_);
      }
    }
  } catch (...) {
    self->close(error_of_exception("watching a connection to a server"));
  }
}

}  // namespace penstock
