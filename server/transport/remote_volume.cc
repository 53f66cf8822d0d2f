#include "server/transport/remote_volume.h"

#include <boost/asio/this_coro.hpp>
#include <utility>

#include "penstock/log.h"
#include "penstock/repeat_budget.h"
#include "server/transport/block_check.h"
#include "server/transport/remote_writer.h"

namespace penstock {

using wire::Operation;

namespace {

// Of the process: a way that changes bytes may do so with each of them.
constexpr std::size_t kServersTold = 256;

void log_repeated(Clock& clock, RepeatBudget& budget, std::string_view event,
                  const std::string& server, std::string_view what, const std::string& text) {
  const auto left_out = budget.take(clock.boot(), server);
  if (!left_out) return;
  log_event(LogLevel::error, event,
            {{"server", server},
             {what, text},
             {*left_out > 0 ? "left_out" : "", std::to_string(*left_out)}});
}

// Lists are long, and maps may be: calls of rounds do not wait behind them.
bool is_long(Operation operation) {
  switch (operation) {
    case Operation::scan:
    case Operation::list_fragments:
    case Operation::list_hints:
    case Operation::list_registers:
    case Operation::adopt:
      return true;
    default:
      return false;
  }
}

}  // namespace

RemoteVolume::RemoteVolume(VolumeId id, std::shared_ptr<RemoteServer> server, Clock& clock)
    : id_(id), clock_(clock), server_(std::move(server)) {}

// Nobody knows what the server did: as if no answer had come.
Error RemoteVolume::not_believed(const char* call) const {
  static RepeatBudget lines(kServersTold);
  const std::string address = server()->address();
  log_repeated(clock_, lines, "answer_not_believed", address, "call", call);
  return fail(Errc::timeout, "server " + address + ": an answer that makes no sense");
}

// The server has checked it as well: what lies between changes bytes.
void RemoteVolume::tell_changed(const Error& error) const {
  static RepeatBudget lines(kServersTold);
  log_repeated(clock_, lines, "block_changed_on_its_way", server()->address(), "reason",
               error.context);
}

Task<CallAnswer> RemoteVolume::ask(Operation operation, std::string fields, Deadline deadline) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const ServerLink& link = server()->link(executor);
  const auto connection = is_long(operation) ? link.for_bytes() : link.for_calls();
  if (connection == nullptr) co_return link.down(operation);
  Call call;
  call.operation = operation;
  call.volume = id_;
  call.fields = std::move(fields);
  call.deadline = deadline;
  co_return co_await connection->call(std::move(call));
}

template <class Reply>
Task<Reply> RemoteVolume::ask_for(Operation operation, std::string fields, Deadline deadline,
                                  Decode<Reply> decode) {
  CO_TRY(answer, co_await ask(operation, std::move(fields), deadline));
  Result<Reply> reply = decode(answer.fields);
  if (!reply) co_return not_believed("fields of an answer");
  co_return reply;
}

Task<> RemoteVolume::tell(Operation operation, std::string fields, Deadline deadline) {
  CO_CHECK(co_await ask(operation, std::move(fields), deadline));
  co_return Result<>{};
}

Task<PrepareReply> RemoteVolume::prepare(std::shared_ptr<const PrepareRequest> request,
                                         Deadline deadline) {
  std::string fields = wire::encode(*request);
  CO_TRY(reply, co_await ask_for(Operation::prepare, std::move(fields), deadline,
                                 &wire::decode_prepare_reply));
  const Accepted& row = reply.accepted;
  const bool above = row.ballot > request->ballot && row.epoch <= request->round.epoch;
  if (reply.promised && above) co_return not_believed("prepare");
  if (!row.ballot.is_zero() && row.value == nullptr) co_return not_believed("prepare");
  co_return reply;
}

Task<AcceptReply> RemoteVolume::accept(std::shared_ptr<const AcceptRequest> request,
                                       Deadline deadline) {
  std::string fields = wire::encode(*request);
  return ask_for(Operation::accept, std::move(fields), deadline, &wire::decode_accept_reply);
}

Task<Accepted> RemoteVolume::read(std::shared_ptr<const ReadRequest> request, Deadline deadline) {
  std::string fields = wire::encode(*request);
  CO_TRY(row,
         co_await ask_for(Operation::read, std::move(fields), deadline, &wire::decode_accepted));
  const bool wanted = request->want != ReadWant::ballot;
  if (wanted && !row.ballot.is_zero() && row.value == nullptr) co_return not_believed("read");
  co_return row;
}

Task<ScanReply> RemoteVolume::scan(std::shared_ptr<const ScanRequest> request, Deadline deadline) {
  std::string fields = wire::encode(*request);
  return ask_for(Operation::scan, std::move(fields), deadline, &wire::decode_scan_reply);
}

Task<> RemoteVolume::drop(std::shared_ptr<const DropRequest> request, Deadline deadline) {
  std::string fields = wire::encode(*request);
  return tell(Operation::drop, std::move(fields), deadline);
}

Task<std::unique_ptr<FragmentWriter>> RemoteVolume::write_fragment(FragmentId id,
                                                                   FragmentShape shape,
                                                                   Deadline deadline) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const ServerLink& link = server()->link(executor);
  const auto connection = link.for_bytes();
  if (connection == nullptr) co_return link.down(Operation::write_fragment);
  wire::WriteFragment message;
  message.id = id;
  message.shape = std::move(shape);
  Call call;
  call.operation = Operation::write_fragment;
  call.volume = id_;
  call.id = connection->new_id();
  call.fields = wire::encode(message);
  call.deadline = deadline;
  // There from now on: whatever ends this call, the server learns that nobody writes any more.
  auto writer =
      std::make_unique<RemoteWriter>(connection, RemoteTransfer{id_, call.id}, executor, clock_);
  CO_CHECK(co_await connection->call(std::move(call)));
  co_return std::unique_ptr<FragmentWriter>(std::move(writer));
}

Task<Piece> RemoteVolume::read_fragment(FragmentReadRequest request, Deadline deadline) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const ServerLink& link = server()->link(executor);
  const auto connection = link.for_bytes();
  if (connection == nullptr) co_return link.down(Operation::read_fragment);
  Call call;
  call.operation = Operation::read_fragment;
  call.volume = id_;
  request.with_checksums = true;
  call.fields = wire::encode(request);
  call.deadline = deadline;
  CO_TRY(answer, co_await connection->call(std::move(call)));
  const auto crcs = wire::decode_block_crcs(answer.fields);
  if (!crcs) co_return not_believed("read_fragment");
  auto piece = checked_piece(request, std::move(answer.payload), *crcs);
  if (!piece && piece.error().code == Errc::invalid) co_return not_believed("read_fragment");
  if (!piece && piece.error().code == Errc::corrupt) tell_changed(piece.error());
  co_return piece;
}

Task<std::vector<FragmentId>> RemoteVolume::pin(std::vector<FragmentId> ids, Deadline deadline) {
  std::string fields = wire::encode(ids);
  return ask_for(Operation::pin, std::move(fields), deadline, &wire::decode_fragment_ids);
}

Task<> RemoteVolume::remove_fragment(FragmentId id, Deadline deadline) {
  const std::vector<FragmentId> ids{id};
  return tell(Operation::remove_fragment, wire::encode(ids), deadline);
}

Task<> RemoteVolume::probe(Deadline deadline) { return tell(Operation::probe, {}, deadline); }

Task<std::vector<FragmentId>> RemoteVolume::pin_for_reader(std::vector<FragmentId> ids,
                                                           Deadline deadline) {
  std::string fields = wire::encode(ids);
  return ask_for(Operation::pin_for_reader, std::move(fields), deadline,
                 &wire::decode_fragment_ids);
}

Task<> RemoteVolume::remove_fragment_if(FragmentId id, RemovalRule rule, Deadline deadline) {
  const wire::RemoveFragment message{id, rule};
  return tell(Operation::remove_fragment_if, wire::encode(message), deadline);
}

Task<std::vector<FragmentEntry>> RemoteVolume::list_fragments(std::optional<FragmentId> after,
                                                              std::uint32_t count,
                                                              Deadline deadline) {
  const wire::ListFragments message{after, count};
  return ask_for(Operation::list_fragments, wire::encode(message), deadline,
                 &wire::decode_fragment_entries);
}

Task<HintListReply> RemoteVolume::list_hints(HintListRequest request, Deadline deadline) {
  return ask_for(Operation::list_hints, wire::encode(request), deadline,
                 &wire::decode_hint_list_reply);
}

Task<Ballot> RemoteVolume::read_hint(HintName name, Deadline deadline) {
  const std::vector<HintName> names{name};
  return ask_for(Operation::read_hint, wire::encode(names), deadline, &wire::decode_ballot);
}

Task<> RemoteVolume::drop_hints(std::vector<HintName> names, Deadline deadline) {
  return tell(Operation::drop_hints, wire::encode(names), deadline);
}

Task<RegisterListReply> RemoteVolume::list_registers(RegisterListRequest request,
                                                     Deadline deadline) {
  return ask_for(Operation::list_registers, wire::encode(request), deadline,
                 &wire::decode_register_list_reply);
}

Task<> RemoteVolume::adopt(std::shared_ptr<const AdoptRequest> request, Deadline deadline) {
  return tell(Operation::adopt, wire::encode(*request), deadline);
}

Task<SharedBytes> RemoteVolume::read_map(Deadline deadline) {
  std::string nothing;
  CO_TRY(answer, co_await ask(Operation::read_map, std::move(nothing), deadline));
  co_return std::make_shared<const std::string>(std::move(answer.fields));
}

Task<JoinState> RemoteVolume::read_join_state(Deadline deadline) {
  return ask_for(Operation::read_join_state, {}, deadline, &wire::decode_join_state);
}

Task<NoteReply> RemoteVolume::read_note(std::string name, Deadline deadline) {
  const wire::ReadNote message{std::move(name)};
  return ask_for(Operation::read_note, wire::encode(message), deadline, &wire::decode_note_reply);
}

Task<> RemoteVolume::put_note(std::string name, std::string bytes, Deadline deadline) {
  const wire::PutNote message{std::move(name), std::move(bytes)};
  return tell(Operation::put_note, wire::encode(message), deadline);
}

}  // namespace penstock
