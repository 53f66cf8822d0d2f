#include "server/transport/served_connection.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "penstock/alarm.h"
#include "penstock/caught.h"
#include "penstock/log.h"
#include "penstock/planted.h"

namespace penstock {
namespace {

using wire::Operation;

constexpr FrameBounds kCallBounds;
constexpr Duration kTakesNothing = std::chrono::seconds(30);  // of its answers: the peer is gone
constexpr Duration kTransferIdle = std::chrono::minutes(15);  // longer than any upload may pause
// What a call holds beside its own bytes: its coroutine, and an answer of usual length.
constexpr std::size_t kCallBytes = 4 * limits::kKiB;

constexpr ReportThrown report_end{"a connection of a peer"};

// Between what is said of a stop and its end: what was sent before that was heard is refused.
constexpr Duration kFarewellTime = std::chrono::milliseconds(100);

// Fields that are longer are read only when there is room for them.
constexpr std::size_t kSmallFields = 64 * limits::kKiB;

// How long the next step of a fragment waits for room; meanwhile nothing else is read.
constexpr Duration kStepPatience = std::chrono::milliseconds(500);

}  // namespace

ServedConnection::ServedConnection(std::unique_ptr<ByteStream> stream, Executor executor,
                                   std::shared_ptr<const ServiceParts> parts,
                                   std::shared_ptr<ServedCounters> counters)
    : stream_(std::move(stream)),
      executor_(executor),
      parts_(std::move(parts)),
      served_(counters ? std::move(counters) : std::make_shared<ServedCounters>()),
      reader_(*stream_, parts_->buffers),
      sender_(*stream_),
      transfers_(executor, parts_->clock),
      room_(std::make_shared<CallRoom>(
          std::shared_ptr<std::atomic<std::uint64_t>>(served_, &served_->under_way))) {}

void ServedConnection::close() {
  if (std::exchange(closed_, true)) return;
  stream_->close();
  sender_.close();
  transfers_.drop_all();
  room_->wake();
  ended_.notify();
}

void ServedConnection::close_when_idle() {
  if (!peer_ || closed_) return close();
  const BootTime now = parts_->clock.boot();
  if (!leaves_since_) {
    leaves_since_ = now;
    wire::Header farewell;
    farewell.operation = Operation::ping;
    farewell.request_id = wire::kFarewell;
    sender_.push(make_frame(reply_to(farewell), ""));
  }
  const bool idle = room_->calls() == 0 && transfers_.size() == 0 && !reader_.waits_within();
  if (idle && now >= *leaves_since_ + kFarewellTime) close();
}

Task<> ServedConnection::greet() {
  const BootTime until = parts_->clock.boot() + Duration(limits::kHelloTime);
  const Alarm alarm(executor_, parts_->clock, until, [this] { close(); });
  std::vector<VolumeId> ids;
  for (const auto& volume : parts_->volumes()) ids.push_back(volume->id());
  CO_TRY(peer, co_await answer_hello(*stream_, reader_, parts_->terms, ids, parts_->random));
  peer_ = std::move(peer);
  met_at_ = parts_->clock.boot();
  has_met_.store(true, std::memory_order_release);
  reader_.grow();
  room_->set_volumes(ids.size());
  counters_ = &served_->of(peer_->role);
  co_return Result<>{};
}

ServedConnection::Met ServedConnection::met() const {
  Met met;
  if (!has_met_.load(std::memory_order_acquire)) return met;
  met.peer = &*peer_;
  met.since = met_at_;
  met.map_epoch = Epoch{map_epoch_.load(std::memory_order_relaxed)};
  return met;
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
  if (send_error_) co_return *send_error_;  // what the reader saw follows from it
  co_return ended;
}

Task<> ServedConnection::read_calls() {
  while (!closed_) {
    CO_TRY(header, co_await reader_.read_header(kCallBounds));
    if (!header) co_return Result<>{};
    if (header->reply || header->operation == Operation::hello) {
      co_return fail(Errc::corrupt, "wire: a peer that answers or greets again");
    }
    map_epoch_.store(header->map_epoch.value, std::memory_order_relaxed);
    if (header->fields_bytes > kSmallFields && !may_be_long(header->operation)) {
      co_return fail(Errc::corrupt, "wire: a frame that is too long");
    }
    if (is_known(header->operation)) {
      CO_CHECK(co_await take_frame(*header));
    } else {
      CO_CHECK(co_await refuse_unknown(*header));
    }
  }
  co_return Result<>{};
}

// Says whom the call is for, and takes that off its fields.
Result<ServedCall> ServedConnection::called(FrameHead& head) const {
  ServedCall call{head.header, {}, parts_->clock.boot()};
  counters_->add_bytes_in(wire::kHeaderBytes + head.header.fields_bytes +
                          head.header.payload_bytes);
  if (!head.header.traced) return call;
  if ((peer_->features & kFeatureTrace) == 0) {
    return fail(Errc::corrupt, "wire: a trace that was not agreed upon");
  }
  TRY(trace, wire::take_trace(head.fields));
  call.trace = trace;
  return call;
}

// Memory is there for short fields alone before there is room for them.
Task<> ServedConnection::take_frame(const wire::Header& header) {
  if (is_at_once(header.operation)) co_return co_await take_at_once(header);
  if (header.operation == Operation::discard) co_return co_await take_discard(header);
  CallRoom::Held held;
  if (header.fields_bytes > kSmallFields) {
    const std::size_t bytes = kCallBytes + header.fields_bytes + header.payload_bytes;
    Result<CallRoom::Held> room = co_await make_room(header, bytes);
    if (!room) {
      const ServedCall call{header, {}, parts_->clock.boot()};
      CO_CHECK(co_await reader_.skip_frame(header));
      co_return co_await refuse_call(call, std::move(room).error());
    }
    held = std::move(*room);
  }
  CO_TRY(head, co_await reader_.read_fields(header));
  co_return co_await take_call(std::move(head), std::move(held));
}

// `held`: null: nothing yet. Reads the payload only when there is room for it.
Task<> ServedConnection::take_call(FrameHead head, CallRoom::Held held) {
  const wire::Header header = head.header;
  CO_TRY(call, called(head));
  if (held == nullptr) {
    const std::size_t bytes = kCallBytes + header.fields_bytes + header.payload_bytes;
    Result<CallRoom::Held> room = co_await make_room(header, bytes);
    if (!room) {
      CO_CHECK(co_await reader_.skip_payload());
      co_return co_await refuse_call(call, std::move(room).error());
    }
    held = std::move(*room);
  }
  CO_TRY(payload, co_await reader_.read_payload());
  begin(call, std::move(head.fields), std::move(payload), std::move(held));
  co_return Result<>{};
}

// Errors: overloaded - the share of the volume, the room of the connection or the memory of the
// process. A call that is refused can be made again, but not the next step of a fragment: it waits
// a little, which holds up its peer.
Task<CallRoom::Held> ServedConnection::make_room(const wire::Header& header, std::size_t bytes) {
  const BootTime now = parts_->clock.boot();
  const BootTime until = is_later_step(header.operation) ? now + kStepPatience : now;
  while (!closed_ && !room_->fits(header.volume, bytes)) {
    if (parts_->clock.boot() >= until) {
      co_return fail(Errc::overloaded, "too many calls to this volume are under way");
    }
    co_await room_->wait(parts_->clock, until);
  }
  const MemoryUse use = header.payload_bytes > 0 ? MemoryUse::writes : MemoryUse::reads;
  Result<MemoryBudget::Lease> lease = co_await take_memory(use, header.volume, bytes, until);
  if (!lease) co_return std::move(lease).error();
  co_return room_->hold(header.volume, bytes, std::move(*lease));
}

Task<MemoryBudget::Lease> ServedConnection::take_memory(MemoryUse use, VolumeId volume,
                                                        std::size_t bytes, BootTime until) {
  if (parts_->budget == nullptr) co_return MemoryBudget::Lease{};
  const std::uint64_t id = volume.value;
  const std::string_view name(reinterpret_cast<const char*>(&id), sizeof id);
  const MemoryUser user{use, parts_->budget->account(name)};
  auto lease = co_await parts_->budget->take_patiently(parts_->clock, user, bytes, until);
  if (!lease) co_return fail(Errc::overloaded, "no memory for more calls to this volume");
  co_return std::move(*lease);
}

// Before its volume is asked: room for an answer that may be long. Meanwhile others are read.
// Errors: overloaded - there was none in time.
Task<> ServedConnection::make_answer_room(const DispatchedCall& call, CallRoom::Hold& held) {
  const AnswerRoom wanted = answer_room(call.operation, call.fields);
  if (wanted.kind == AnswerKind::brief) co_return Result<>{};
  const VolumeId volume = call.volume->id();
  ByteLine& line = wanted.kind == AnswerKind::piece ? room_->pieces() : room_->lists();
  auto room = co_await line.take(volume, wanted.bytes, parts_->clock, call.deadline);
  if (!room) co_return fail(Errc::overloaded, "too many answers of this volume are under way");
  const BootTime until = call.deadline.capped(parts_->clock.boot() + limits::kMemoryWait);
  auto lease = co_await take_memory(MemoryUse::reads, volume, wanted.bytes, until);
  if (!lease) co_return std::move(lease).error();
  held.expect(wanted.bytes, std::move(*room), std::move(*lease));
  co_return Result<>{};
}

// It frees what others wait for, and has no answer: it needs no room.
Task<> ServedConnection::take_discard(const wire::Header& header) {
  CO_TRY(head, co_await reader_.read_fields(header));
  CO_CHECK(co_await reader_.skip_payload());
  CO_CHECK(called(head));
  if (const auto message = wire::decode_end_transfer(head.fields)) {
    transfers_.discard(message->transfer);
  }
  co_return Result<>{};
}

// A peer of a newer release goes on without this call, and loses no other.
Task<> ServedConnection::refuse_unknown(const wire::Header& header) {
  const ServedCall call{header, {}, parts_->clock.boot()};
  counters_->add_bytes_in(wire::kHeaderBytes + header.fields_bytes + header.payload_bytes);
  CO_CHECK(co_await reader_.skip_frame(header));
  co_return co_await refuse_call(call, wire::unknown_call(header.operation));
}

// A peer that takes no answers is read no further, whatever they are.
Task<> ServedConnection::take_at_once(const wire::Header& header) {
  while (!room_->fits_at_once() && !closed_) co_await room_->wait();
  CallRoom::Held held = room_->hold_at_once(kCallBytes + header.fields_bytes);
  CO_TRY(head, co_await reader_.read_fields(header));
  CO_CHECK(co_await reader_.skip_payload());
  CO_TRY(call, called(head));
  begin_at_once(call, head.fields, std::move(held));
  co_return Result<>{};
}

Task<> ServedConnection::refuse_call(const ServedCall& call, Error why) {
  while (!room_->fits_at_once() && !closed_) co_await room_->wait();
  CallRoom::Held held = room_->hold_at_once(kCallBytes);
  answer(call, std::move(why), std::move(held));
  co_return Result<>{};
}

void ServedConnection::begin_at_once(const ServedCall& served, std::string_view fields,
                                     CallRoom::Held held) {
  const Operation operation = served.header.operation;
  if (operation == Operation::announce) {
    return answer(served, take_announcement(fields), std::move(held));
  }
  DispatchedAnswer now;
  if (operation == Operation::status) now.fields = wire::encode(status());
  if (operation == Operation::describe) now.fields = parts_->describe ? parts_->describe() : "{}";
  answer(served, std::move(now), std::move(held));
}

void ServedConnection::begin(const ServedCall& served, std::string fields, Buffer payload,
                             CallRoom::Held held) {
  const wire::Header& header = served.header;
  if (leaves_since_ && !is_later_step(header.operation)) {
    const Error stops = fail(Errc::unavailable, "this server stops; the call was not begun");
    return answer(served, stops, std::move(held));
  }
  if (const Result<> same = check_map(header); !same) {
    return answer(served, same.error(), std::move(held));
  }
  if (is_step(header.operation)) {
    return begin_step(served, fields, std::move(payload), std::move(held));
  }
  DispatchedCall call;
  call.operation = header.operation;
  call.volume = find(header.volume);
  call.fields = std::move(fields);
  call.deadline = deadline_of(served);
  if (call.volume == nullptr) {
    return answer(served, fail(Errc::unavailable, "no such volume here"), std::move(held));
  }
  boost::asio::co_spawn(executor_,
                        run_call(shared_from_this(), served, std::move(call), std::move(held)),
                        report_end);
}

void ServedConnection::begin_step(const ServedCall& call, const std::string& fields, Buffer payload,
                                  CallRoom::Held held) {
  const wire::Header& header = call.header;
  const Deadline deadline = deadline_of(call);
  auto ended = [weak = weak_from_this(), call, held = std::move(held)](Result<> done) mutable {
    const auto self = weak.lock();
    if (self == nullptr) return;
    Result<DispatchedAnswer> given{DispatchedAnswer{}};
    if (!done) given = std::move(done).error();
    self->answer(call, std::move(given), std::exchange(held, nullptr));
  };
  if (header.operation == Operation::write_fragment) {
    auto message = wire::decode_write_fragment(fields);
    auto volume = find(header.volume);
    if (!message) return ended(message.error());
    if (volume == nullptr) return ended(fail(Errc::unavailable, "no such volume here"));
    return transfers_.open(header.request_id, std::move(volume), std::move(*message), deadline,
                           std::move(ended));
  }
  if (header.operation == Operation::append) {
    auto message = wire::decode_append(fields);
    if (!message) return ended(message.error());
    return transfers_.append(std::move(*message), std::move(payload), deadline, std::move(ended));
  }
  const auto message = wire::decode_end_transfer(fields);
  if (!message) return ended(message.error());
  transfers_.commit(message->transfer, deadline, std::move(ended));
}

// An address is a hint: the caller may mean a volume that was here before.
std::shared_ptr<VolumeClient> ServedConnection::find(VolumeId id) const {
  auto volume = parts_->find(id);
  if (volume != nullptr || holds(Rule::volume_of_call)) return volume;
  const auto others = parts_->volumes();
  return others.empty() ? nullptr : others.front();
}

Deadline ServedConnection::deadline_of(const ServedCall& call) {
  const std::chrono::milliseconds patience(call.header.patience_ms);
  return {call.began + std::min<Duration>(patience, limits::kCallPatienceMax), call.trace};
}

Result<DispatchedAnswer> ServedConnection::take_announcement(std::string_view fields) const {
  TRY(places, wire::decode_places(fields));
  if (!peer_ || peer_->role != PeerRole::server || !parts_->hear) {
    return fail(Errc::invalid, "only servers say where volumes are");
  }
  parts_->hear(std::move(places));
  return DispatchedAnswer{};
}

// Two maps of one epoch: one of them was never agreed upon.
Result<> ServedConnection::check_map(const wire::Header& call) const {
  if (is_about_maps(call.operation)) return {};
  if (!parts_->stamp || !holds(Rule::map_of_epoch)) return {};
  const MapStamp own = parts_->stamp();
  if (call.map_epoch != own.epoch || call.map_digest == own.digest) return {};
  return fail(Errc::stale_epoch, "the caller has another map of the same epoch");
}

wire::ServerStatus ServedConnection::status() const {
  wire::ServerStatus status;
  for (const auto& volume : parts_->volumes()) {
    status.volumes.emplace_back(volume->id(), volume->status());
  }
  room_->set_volumes(status.volumes.size());
  if (parts_->places) status.places = parts_->places();
  return status;
}

wire::Header ServedConnection::reply_to(const wire::Header& call) const {
  wire::Header header;
  header.operation = call.operation;
  header.reply = true;
  header.request_id = call.request_id;
  header.volume = call.volume;
  if (parts_->stamp) {
    const MapStamp stamp = parts_->stamp();
    header.map_epoch = stamp.epoch;
    header.map_digest = stamp.digest;
  }
  header.leaving = leaves_since_ || (parts_->leaving && parts_->leaving());
  return header;
}

void ServedConnection::answer(const ServedCall& served, Result<DispatchedAnswer> answer,
                              CallRoom::Held held) {
  wire::Header header = reply_to(served.header);
  if (answer && answer->fields.size() > wire::kFieldsBytesMax) {
    answer = fail(Errc::invalid, "an answer that is longer than a frame may be");
  }
  header.failed = !answer.has_value();
  OutFrame frame;
  std::optional<Error> error;
  if (answer) {
    header.block_checksums = !answer->piece.block_crcs.empty();
    frame = make_frame(header, answer->fields, answer->piece);
    if (frame.file.length > 0) {
      frame.file_failed = [weak = weak_from_this(), served](const Error& why) {
        if (const auto self = weak.lock()) self->note_unsent(served, why);
      };
    }
  } else {
    error = std::move(answer).error();
    frame = make_frame(header, wire::encode(wire::Failure{*error}));
  }
  held->answered(kCallBytes, frame.bytes());
  frame.keepalive = std::move(held);
  note(served, error ? &*error : nullptr, frame.bytes());
  sender_.push(std::move(frame));
}

// The disk gave other bytes than a moment ago, when they were checked: or none.
void ServedConnection::note_unsent(const ServedCall& call, const Error& why) {
  const BootTime now = parts_->clock.boot();
  counters_->add_error(why.code);
  if (!served_->lines.take(now)) return;
  log_served_call(call, peer_->name, &why, now - call.began, 0);
}

// Counts it, and logs what someone may look for.
void ServedConnection::note(const ServedCall& call, const Error* error, std::size_t bytes_out) {
  const BootTime now = parts_->clock.boot();
  const Duration took = now - call.began;
  const auto code = error == nullptr ? std::nullopt : std::optional<Errc>(error->code);
  counters_->add_bytes_out(bytes_out);
  counters_->end(call.header.operation, error ? CallOutcome::error : CallOutcome::ok, code, took);
  const bool bad = error != nullptr && is_trouble(error->code);
  if (!bad && took < kSlowCall && !log_enabled(LogLevel::debug)) return;
  const bool plain = !bad && took < kSlowCall;
  const auto left_out = bad && (leaves_since_ || is_closed(call.header.volume))
                            ? parts_->closed_lines->take(now, hex_name(call.header.volume.value))
                            : std::optional<std::uint64_t>(0);
  if (!left_out || (!plain && !served_->lines.take(now))) return;
  log_served_call(call, peer_ ? peer_->name : "", error, took, *left_out);
}

Awaitable<void> ServedConnection::run_call(std::shared_ptr<ServedConnection> self,
                                           ServedCall served, DispatchedCall call,
                                           CallRoom::Held held) {
  Result<DispatchedAnswer> answer = fail(Errc::io, "no answer");
  try {
    const Result<> room = co_await self->make_answer_room(call, *held);
    if (room) {
      answer = co_await dispatch(std::move(call));
    } else {
      answer = room.error();
    }
  } catch (...) {
    answer = error_of_exception("a call of a peer");
  }
  self->answer(served, std::move(answer), std::move(held));
}

Awaitable<void> ServedConnection::run_sender(std::shared_ptr<ServedConnection> self) {
  Result<> ended;
  try {
    ended = co_await self->sender_.run();
  } catch (...) {
    ended = error_of_exception("sending to a peer");
  }
  if (!ended) self->send_error_ = std::move(ended).error();
  self->close();
}

Awaitable<void> ServedConnection::run_watch(std::shared_ptr<ServedConnection> self) {
  try {
    co_await self->watch();
  } catch (...) {
    report_exception("watching a connection of a peer");
    self->close();
  }
}

Awaitable<void> ServedConnection::watch() {
  const auto self = shared_from_this();
  std::uint64_t ended_sends = 0;
  std::uint64_t received = 0;
  while (!self->closed_) {
    co_await self->ended_.wait(self->parts_->clock, self->parts_->clock.boot() + kTakesNothing);
    const std::uint64_t now = self->sender_.sends_ended() + self->stream_->progress().taken;
    if (now == ended_sends && self->sender_.waiting_bytes() > 0) self->close();
    ended_sends = now;
    const bool came = std::exchange(received, self->reader_.received()) != received;
    if (self->reader_.waits_within() && !came) self->close();
    self->transfers_.drop_idle(self->parts_->clock.boot() - kTransferIdle);
  }
}

}  // namespace penstock
