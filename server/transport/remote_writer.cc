#include "server/transport/remote_writer.h"

#include <boost/asio/co_spawn.hpp>
#include <optional>
#include <utility>

#include "penstock/busy_pause.h"
#include "penstock/caught.h"

namespace penstock {

struct RemoteWriter::State {
  std::shared_ptr<CallConnection> connection;
  int in_flight = 0;
  std::optional<Error> failed;  // the first error; final
  Wakeup changed;
  void fail_with(const Error& error) {
    if (!failed) failed = error;
    changed.notify();
  }
};

RemoteWriter::RemoteWriter(std::shared_ptr<CallConnection> connection, RemoteTransfer transfer,
                           Executor executor, Clock& clock)
    : state_(std::make_shared<State>()),
      transfer_(transfer),
      executor_(std::move(executor)),
      clock_(clock) {
  state_->connection = std::move(connection);
}

RemoteWriter::~RemoteWriter() { discard(); }

// Behind a commit that is under way at the server it changes nothing.
void RemoteWriter::discard() {
  if (committed_ || std::exchange(discarded_, true)) return;
  wire::EndTransfer message;
  message.transfer = transfer_.id;
  const Deadline until = clock_.boot() + Duration(limits::kNoProgress);
  state_->connection->tell(call_of(wire::Operation::discard, wire::encode(message), until));
}

Call RemoteWriter::call_of(wire::Operation operation, std::string fields, Deadline deadline) const {
  Call call;
  call.operation = operation;
  call.volume = transfer_.volume;
  call.fields = std::move(fields);
  call.deadline = deadline;
  return call;
}

Awaitable<void> RemoteWriter::send(std::shared_ptr<State> state, Call call,
                                   [[maybe_unused]] ByteLine::Held room) {
  Result<CallAnswer> answer = fail(Errc::io, "no answer");
  try {
    answer = co_await state->connection->call(std::move(call));
  } catch (...) {
    answer = error_of_exception("a piece of a fragment");
  }
  --state->in_flight;
  if (!answer) state->fail_with(answer.error());
  state->changed.notify();
}

Awaitable<void> RemoteWriter::wait_for_room(int in_flight_max, Deadline deadline) {
  while (state_->in_flight > in_flight_max && !state_->failed && clock_.boot() < deadline) {
    co_await state_->changed.wait(clock_, deadline);
  }
  if (state_->in_flight > in_flight_max && !state_->failed) {
    state_->fail_with(fail(Errc::timeout, "a fragment: its pieces are not answered in time"));
  }
}

Task<> RemoteWriter::append(Buffer data, std::vector<std::uint32_t> crcs, Deadline deadline) {
  co_await wait_for_room(limits::kFragmentWritesInFlight - 1, deadline);
  if (state_->failed) co_return *state_->failed;
  // Other fragments of this volume are written over the connection as well.
  ByteLine& line = state_->connection->sent_pieces();
  auto room = co_await line.take(transfer_.volume, data.size(), clock_, deadline);
  if (state_->failed) co_return *state_->failed;
  if (!room) {
    state_->fail_with(room.error());
    co_return *state_->failed;
  }
  wire::Append message;
  message.transfer = transfer_.id;
  message.crcs = std::move(crcs);
  Call call = call_of(wire::Operation::append, wire::encode(message), deadline);
  call.payload = std::move(data);
  ++state_->in_flight;
  boost::asio::co_spawn(executor_, send(state_, std::move(call), std::move(*room)),
                        ReportThrown{"a piece of a fragment"});
  co_return Result<>{};
}

Task<> RemoteWriter::commit(Deadline deadline) {
  co_await wait_for_room(0, deadline);
  if (state_->failed) co_return *state_->failed;
  for (std::uint64_t attempt = 0;; ++attempt) {
    const Result<> done = co_await commit_once(deadline);
    committed_ = done.has_value();
    const BootTime again = clock_.boot() + busy_pause(transfer_.id + attempt);
    const bool busy = !done && done.error().code == Errc::overloaded;
    if (!busy || again >= deadline || state_->failed) co_return done;
    co_await clock_.sleep_until(again);
  }
}

Task<> RemoteWriter::commit_once(Deadline deadline) {
  wire::EndTransfer message;
  message.transfer = transfer_.id;
  Call call = call_of(wire::Operation::commit, wire::encode(message), deadline);
  CO_CHECK(co_await state_->connection->call(std::move(call)));
  co_return Result<>{};
}

void RemoteWriter::give_up() {
  state_->fail_with(fail(Errc::timeout, "a fragment: nobody waits for it any more"));
  discard();
}

}  // namespace penstock
