#include "server/transport/served_connection.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "penstock/alarm.h"
#include "penstock/caught.h"

namespace penstock {
namespace {

using wire::Operation;

constexpr FrameBounds kCallBounds;
constexpr Duration kTakesNothing = std::chrono::seconds(30);  // of its answers: the peer is gone
constexpr Duration kTransferIdle = std::chrono::minutes(15);  // longer than any upload may pause
// What a call holds beside its own bytes: its coroutine, and an answer of usual length.
constexpr std::size_t kCallBytes = 4 * limits::kKiB;

void report_end(std::exception_ptr thrown) {
  if (thrown) report_exception("a connection of a peer", thrown);
}

bool is_step(Operation operation) {
  return operation == Operation::write_fragment || operation == Operation::append ||
         operation == Operation::commit;
}

// Bytes of the answer that is the longest of its kind; lists are bounded by kReplyBytesMax and
// seldom reach it.
std::size_t answer_bytes(const FrameHead& head) {
  if (head.header.operation != Operation::read_fragment) return 0;
  const auto request = wire::decode_fragment_read(head.fields);
  return request ? std::min<std::uint64_t>(request->length, limits::kPieceBytes) : 0;
}

}  // namespace

ServedConnection::ServedConnection(std::unique_ptr<ByteStream> stream, Executor executor,
                                   std::shared_ptr<const ServiceParts> parts)
    : stream_(std::move(stream)),
      executor_(executor),
      parts_(std::move(parts)),
      reader_(*stream_, parts_->buffers),
      sender_(*stream_),
      transfers_(executor, parts_->clock) {}

void ServedConnection::close() {
  if (std::exchange(closed_, true)) return;
  stream_->close();
  sender_.close();
  transfers_.drop_all();
  room_->wake();
  ended_.notify();
}

Task<> ServedConnection::greet() {
  const BootTime until = parts_->clock.boot() + Duration(limits::kHelloTime);
  const Alarm alarm(executor_, parts_->clock, until, [this] { close(); });
  std::vector<VolumeId> ids;
  for (const auto& volume : parts_->volumes()) ids.push_back(volume->id());
  CO_TRY(peer, co_await answer_hello(*stream_, reader_, parts_->terms, ids, parts_->random));
  peer_ = std::move(peer);
  co_return Result<>{};
}

Task<> ServedConnection::run() {
  const auto self = shared_from_this();
  Result<> ended = fail(Errc::aborted, "the connection has ended");
  try {
    ended = co_await greet();
    if (ended) {
      boost::asio::co_spawn(executor_, run_sender(self), report_end);
      boost::asio::co_spawn(executor_, run_watch(self), report_end);
      ended = co_await read_calls();
    }
  } catch (...) {
    ended = error_of_exception("a connection of a peer");
  }
  close();
  co_return ended;
}

Task<> ServedConnection::read_calls() {
  while (!closed_) {
    CO_TRY(head, co_await reader_.read_head(kCallBounds));
    if (!head) co_return Result<>{};
    if (head->header.reply || head->header.operation == Operation::hello) {
      co_return fail(Errc::corrupt, "wire: a peer that answers or greets again");
    }
    CO_CHECK(co_await take_call(std::move(*head)));
  }
  co_return Result<>{};
}

// Reads the payload only when there is room for it.
Task<> ServedConnection::take_call(FrameHead head) {
  const wire::Header header = head.header;
  const std::size_t bytes =
      kCallBytes + header.fields_bytes + header.payload_bytes + answer_bytes(head);
  if (!room_->fits_volume(header.volume, bytes)) {
    CO_CHECK(co_await reader_.skip_payload());
    answer(header, fail(Errc::overloaded, "too many calls to this volume are under way"), nullptr);
    co_return Result<>{};
  }
  while (!room_->fits(bytes) && !closed_) co_await room_->wait();
  CallRoom::Held held = room_->hold(header.volume, bytes);
  CO_TRY(payload, co_await reader_.read_payload());
  begin(std::move(head), std::move(payload), std::move(held));
  co_return Result<>{};
}

void ServedConnection::begin(FrameHead head, Buffer payload, CallRoom::Held held) {
  const wire::Header header = head.header;
  if (header.operation == Operation::ping) {
    return answer(header, DispatchedAnswer{}, std::move(held));
  }
  if (header.operation == Operation::status) {
    DispatchedAnswer now;
    now.fields = wire::encode(status());
    return answer(header, std::move(now), std::move(held));
  }
  if (header.operation == Operation::discard) {
    if (const auto message = wire::decode_end_transfer(head.fields)) {
      transfers_.discard(message->transfer);
    }
    return;
  }
  if (const Result<> same = check_map(header); !same) {
    return answer(header, same.error(), std::move(held));
  }
  if (is_step(header.operation)) return begin_step(head, std::move(payload), std::move(held));
  DispatchedCall call;
  call.operation = header.operation;
  call.volume = parts_->find(header.volume);
  call.fields = std::move(head.fields);
  call.deadline = deadline_of(header);
  if (call.volume == nullptr) {
    return answer(header, fail(Errc::unavailable, "no such volume here"), std::move(held));
  }
  boost::asio::co_spawn(executor_,
                        run_call(shared_from_this(), header, std::move(call), std::move(held)),
                        report_end);
}

void ServedConnection::begin_step(const FrameHead& head, Buffer payload, CallRoom::Held held) {
  const wire::Header header = head.header;
  const Deadline deadline = deadline_of(header);
  auto ended = [weak = weak_from_this(), header, held = std::move(held)](Result<> done) mutable {
    const auto self = weak.lock();
    if (self == nullptr) return;
    Result<DispatchedAnswer> given{DispatchedAnswer{}};
    if (!done) given = std::move(done).error();
    self->answer(header, std::move(given), std::exchange(held, nullptr));
  };
  if (header.operation == Operation::write_fragment) {
    auto message = wire::decode_write_fragment(head.fields);
    auto volume = parts_->find(header.volume);
    if (!message) return ended(message.error());
    if (volume == nullptr) return ended(fail(Errc::unavailable, "no such volume here"));
    return transfers_.open(header.request_id, std::move(volume), std::move(*message), deadline,
                           std::move(ended));
  }
  if (header.operation == Operation::append) {
    auto message = wire::decode_append(head.fields);
    if (!message) return ended(message.error());
    return transfers_.append(std::move(*message), std::move(payload), deadline, std::move(ended));
  }
  const auto message = wire::decode_end_transfer(head.fields);
  if (!message) return ended(message.error());
  transfers_.commit(message->transfer, deadline, std::move(ended));
}

Deadline ServedConnection::deadline_of(const wire::Header& call) const {
  const std::chrono::milliseconds patience(call.patience_ms);
  return parts_->clock.boot() + std::min<Duration>(patience, limits::kCallPatienceMax);
}

// Two maps of one epoch: one of them was never agreed upon.
Result<> ServedConnection::check_map(const wire::Header& call) const {
  if (!parts_->stamp) return {};
  const MapStamp own = parts_->stamp();
  if (call.map_epoch != own.epoch || call.map_digest == own.digest) return {};
  return fail(Errc::stale_epoch, "the caller has another map of the same epoch");
}

wire::ServerStatus ServedConnection::status() const {
  wire::ServerStatus status;
  for (const auto& volume : parts_->volumes()) {
    status.volumes.emplace_back(volume->id(), volume->status());
  }
  return status;
}

void ServedConnection::answer(const wire::Header& call, Result<DispatchedAnswer> answer,
                              CallRoom::Held held) {
  wire::Header header;
  header.operation = call.operation;
  header.reply = true;
  header.failed = !answer.has_value();
  header.request_id = call.request_id;
  header.volume = call.volume;
  if (parts_->stamp) {
    const MapStamp stamp = parts_->stamp();
    header.map_epoch = stamp.epoch;
    header.map_digest = stamp.digest;
  }
  header.leaving = parts_->leaving && parts_->leaving();
  OutFrame frame;
  if (answer) {
    const Piece& piece = answer->piece;
    const Buffer payload =
        piece.length == 0 ? Buffer{} : piece.memory.slice(piece.memory_offset, piece.length);
    frame = make_frame(header, answer->fields, payload.keeping(piece.keepalive));
  } else {
    frame = make_frame(header, wire::encode(wire::Failure{answer.error()}));
  }
  frame.keepalive = std::move(held);
  sender_.push(std::move(frame));
}

Awaitable<void> ServedConnection::run_call(std::shared_ptr<ServedConnection> self,
                                           wire::Header header, DispatchedCall call,
                                           CallRoom::Held held) {
  Result<DispatchedAnswer> answer = fail(Errc::io, "no answer");
  try {
    answer = co_await dispatch(std::move(call));
  } catch (...) {
    answer = error_of_exception("a call of a peer");
  }
  self->answer(header, std::move(answer), std::move(held));
}

Awaitable<void> ServedConnection::run_sender(std::shared_ptr<ServedConnection> self) {
  (void)co_await self->sender_.run();  // the reader finds the same end
  self->close();
}

Awaitable<void> ServedConnection::run_watch(std::shared_ptr<ServedConnection> self) {
  std::uint64_t ended_sends = 0;
  while (!self->closed_) {
    co_await self->ended_.wait(self->parts_->clock, self->parts_->clock.boot() + kTakesNothing);
    const std::uint64_t now = self->sender_.sends_ended();
    if (now == ended_sends && self->sender_.waiting_bytes() > 0) self->close();
    ended_sends = now;
    self->transfers_.drop_idle(self->parts_->clock.boot() - kTransferIdle);
  }
}

}  // namespace penstock
