#include "tests/sim/sim_network.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

namespace penstock::sim {

struct SimLink::State {
  SimTime& time;
  SimRandom& random;
  const NetworkFaults& faults;
  std::shared_ptr<VolumeHost> host;
  std::shared_ptr<Wire> wire;
  bool direct;

  SimMicros delay() {
    if (random.chance(faults.slow)) return random.between(faults.delay_max, faults.slow_max);
    return random.between(1, faults.delay_max);
  }
  bool loses() { return random.chance(faults.lose); }
};

namespace {

using StatePtr = std::shared_ptr<SimLink::State>;
template <class T>
using Call = std::function<Task<T>(VolumeClient&)>;

// The volume's side of one message: runs the call there and sends the answer back, if both
// processes still live.
template <class T>
Awaitable<void> serve(StatePtr state, Call<T> call, Completion<T> done, bool answer_lost) {
  const auto volume = state->host->current();
  if (!volume) {
    done(fail(Errc::unavailable, "connection refused"));
    co_return;
  }
  auto result = co_await call(*volume);
  if (answer_lost || state->wire->cut_answers || state->host->current() != volume) co_return;
  auto answer = std::make_shared<Result<T>>(std::move(result));
  const SimMicros later = state->delay() + state->wire->slow_answers;
  state->time.after(later, [done, answer] { done(std::move(*answer)); });
}

template <class T>
void send(const StatePtr& state, const Call<T>& call, const Completion<T>& done) {
  if (state->wire->cut_requests || state->loses()) return;
  const bool answer_lost = state->loses();
  const SimMicros later = state->delay() + state->wire->slow_requests;
  state->time.after(later, [state, call, done, answer_lost] {
    boost::asio::co_spawn(state->time.io(), serve<T>(state, call, done, answer_lost),
                          boost::asio::detached);
  });
}

// A copy that a network kept: nobody waits for its answer any more.
template <class T>
void send_late(const StatePtr& state, const Call<T>& call, const Completion<T>& done) {
  const SimMicros later = state->random.between(state->faults.slow_max, state->faults.late_max);
  state->time.after(later, [state, call, done] {
    if (state->wire->cut_requests) return;
    boost::asio::co_spawn(state->time.io(), serve<T>(state, call, done, true),
                          boost::asio::detached);
  });
}

template <class T>
Task<T> over_the_wire(StatePtr state, Call<T> call, Deadline deadline, SimMicros until_deadline,
                      bool idempotent) {
  (void)deadline;
  auto start = [state, call = std::move(call), until_deadline, idempotent](Completion<T> done) {
    send<T>(state, call, done);
    if (idempotent && state->random.chance(state->faults.duplicate)) send<T>(state, call, done);
    if (idempotent && state->random.chance(state->faults.late)) send_late<T>(state, call, done);
    state->time.after(until_deadline, [done] { done(fail(Errc::timeout, "no answer in time")); });
  };
  return await_completion<T>(std::move(start));
}

// A fragment being written at the other end. Destroying it closes the connection: the volume
// forgets the fragment.
class RemoteWriter final : public FragmentWriter {
 public:
  RemoteWriter(StatePtr state, std::shared_ptr<FragmentWriter> writer,
               std::weak_ptr<VolumeClient> volume)
      : state_(std::move(state)), writer_(std::move(writer)), volume_(std::move(volume)) {}

  Task<> append(Buffer data, std::vector<std::uint32_t> crcs, Deadline deadline) override {
    Buffer copy = Buffer::copy_of(data.bytes());
    Call<void> call = [writer = writer_, home = volume_, host = state_->host, copy,
                       crcs = std::move(crcs)](VolumeClient& volume) -> Task<> {
      return append_there(writer, home.lock().get() == &volume, copy, crcs, host->bound());
    };
    return run(std::move(call), deadline);
  }
  Task<> commit(Deadline deadline) override {
    Call<void> call = [writer = writer_, home = volume_,
                       host = state_->host](VolumeClient& volume) -> Task<> {
      return commit_there(writer, home.lock().get() == &volume, host->bound());
    };
    return run(std::move(call), deadline);
  }

 private:
  static Task<> append_there(std::shared_ptr<FragmentWriter> writer, bool same, Buffer data,
                             std::vector<std::uint32_t> crcs, Deadline deadline) {
    if (!same) co_return fail(Errc::unavailable, "the volume restarted");
    co_return co_await writer->append(std::move(data), std::move(crcs), deadline);
  }
  static Task<> commit_there(std::shared_ptr<FragmentWriter> writer, bool same, Deadline deadline) {
    if (!same) co_return fail(Errc::unavailable, "the volume restarted");
    co_return co_await writer->commit(deadline);
  }
  // A stream is ordered: no loss inside it, only a broken connection.
  Task<> run(Call<void> call, Deadline deadline) {
    constexpr SimMicros kStreamTimeout = 5'000'000;
    return over_the_wire<void>(state_, std::move(call), deadline, kStreamTimeout, false);
  }
  StatePtr state_;
  std::shared_ptr<FragmentWriter> writer_;
  std::weak_ptr<VolumeClient> volume_;
};

Task<std::shared_ptr<FragmentWriter>> open_there(std::shared_ptr<VolumeClient> volume,
                                                 FragmentId id, FragmentShape shape,
                                                 Deadline deadline) {
  CO_TRY(writer, co_await volume->write_fragment(id, shape, deadline));
  co_return std::shared_ptr<FragmentWriter>(std::move(writer));
}

Task<Piece> lost_fragment() { co_return fail(Errc::not_found, "hidden"); }

Task<Piece> read_there(VolumeClient& volume, FragmentReadRequest request, Deadline deadline) {
  request.file_allowed = false;
  return volume.read_fragment(std::move(request), deadline);
}

}  // namespace

SimLink::SimLink(SimTime& time, SimRandom& random, const NetworkFaults& faults,
                 std::shared_ptr<VolumeHost> host, std::shared_ptr<Wire> wire, bool direct)
    : state_(new State{time, random, faults, std::move(host), std::move(wire), direct}) {
  state_->wire->host = state_->host;
}
SimLink::~SimLink() = default;

VolumeId SimLink::id() const { return state_->host->id(); }

VolumeStatus SimLink::status() const {
  const auto volume = state_->host->current();
  if (volume) return volume->status();
  VolumeStatus status;
  status.state = state_->direct ? VolumeStatus::State::closed
                                : VolumeStatus::State::open;  // a gateway learns it by asking
  return status;
}

namespace {
template <class T>
Task<T> forward(StatePtr state, Call<T> call, Deadline deadline) {
  if (state->direct) {
    const auto volume = state->host->current();
    if (!volume) {
      auto refuse = [](Completion<T> done) { done(fail(Errc::unavailable, "volume closed")); };
      return await_completion<T>(std::move(refuse));
    }
    return call(*volume);
  }
  constexpr SimMicros kCallTimeout = 250'000;
  return over_the_wire<T>(std::move(state), std::move(call), deadline, kCallTimeout, true);
}

Task<> pause(StatePtr state, SimMicros time) {
  auto later = [state, time](Completion<int> done) {
    state->time.after(time, [done] { done(0); });
  };
  const auto woken = co_await await_completion<int>(std::move(later));
  (void)woken;
  co_return Result<>{};
}

template <class T>
Task<T> forward_later(StatePtr state, Call<T> call, Deadline deadline, SimMicros time) {
  co_await pause(state, time);
  co_return co_await forward<T>(std::move(state), std::move(call), deadline);
}
}  // namespace

Task<PrepareReply> SimLink::prepare(std::shared_ptr<const PrepareRequest> request,
                                    Deadline deadline) {
  Call<PrepareReply> call = [request, host = state_->host](VolumeClient& volume) {
    return volume.prepare(request, host->bound());
  };
  return forward<PrepareReply>(state_, std::move(call), deadline);
}
Task<AcceptReply> SimLink::accept(std::shared_ptr<const AcceptRequest> request, Deadline deadline) {
  Call<AcceptReply> call = [request, host = state_->host](VolumeClient& volume) {
    return volume.accept(request, host->bound());
  };
  return forward<AcceptReply>(state_, std::move(call), deadline);
}
Task<Accepted> SimLink::read(std::shared_ptr<const ReadRequest> request, Deadline deadline) {
  Call<Accepted> call = [request, host = state_->host](VolumeClient& volume) {
    return volume.read(request, host->bound());
  };
  return forward<Accepted>(state_, std::move(call), deadline);
}
std::optional<Result<Accepted>> SimLink::read_now(const ReadRequest& request) {
  const auto volume = state_->direct ? state_->host->current() : nullptr;
  if (!volume) return std::nullopt;
  return volume->read_now(request);
}
bool SimLink::holds_now(const ReadRequest& request, const Ballot& ballot) {
  const auto volume = state_->direct ? state_->host->current() : nullptr;
  return volume != nullptr && volume->holds_now(request, ballot);
}
Task<ScanReply> SimLink::scan(std::shared_ptr<const ScanRequest> request, Deadline deadline) {
  Call<ScanReply> call = [request, host = state_->host](VolumeClient& volume) {
    return volume.scan(request, host->bound());
  };
  return forward<ScanReply>(state_, std::move(call), deadline);
}
Task<> SimLink::drop(std::shared_ptr<const DropRequest> request, Deadline deadline) {
  Call<void> call = [request, host = state_->host](VolumeClient& volume) {
    return volume.drop(request, host->bound());
  };
  return forward<void>(state_, std::move(call), deadline);
}

Task<std::unique_ptr<FragmentWriter>> SimLink::write_fragment(FragmentId id, FragmentShape shape,
                                                              Deadline deadline) {
  const auto home = std::make_shared<std::weak_ptr<VolumeClient>>();
  const StatePtr state = state_;
  if (state->wire->slow_writes > 0) co_await pause(state, state->wire->slow_writes);
  Call<std::shared_ptr<FragmentWriter>> call = [state, home, id, shape](VolumeClient&) {
    const auto volume = state->host->current();
    *home = volume;
    return open_there(volume, id, shape, state->host->bound());
  };
  CO_TRY(writer,
         co_await forward<std::shared_ptr<FragmentWriter>>(state, std::move(call), deadline));
  co_return std::unique_ptr<FragmentWriter>(new RemoteWriter(state, std::move(writer), *home));
}

Task<Piece> SimLink::read_fragment(FragmentReadRequest request, Deadline deadline) {
  Call<Piece> call = [request, host = state_->host, wire = state_->wire](VolumeClient& volume) {
    return wire->no_fragments ? lost_fragment() : read_there(volume, request, host->bound());
  };
  if (state_->wire->slow_reads == 0) return forward<Piece>(state_, std::move(call), deadline);
  return forward_later<Piece>(state_, std::move(call), deadline, state_->wire->slow_reads);
}
std::optional<Result<Piece>> SimLink::read_fragment_now(const FragmentReadRequest& request) {
  const auto volume = state_->direct ? state_->host->current() : nullptr;
  if (!volume) return std::nullopt;
  FragmentReadRequest asked = request;
  asked.file_allowed = false;
  return volume->read_fragment_now(asked);
}
Task<std::vector<FragmentId>> SimLink::pin(std::vector<FragmentId> ids, Deadline deadline) {
  Call<std::vector<FragmentId>> call = [ids, host = state_->host](VolumeClient& volume) {
    return volume.pin(ids, host->bound());
  };
  return forward<std::vector<FragmentId>>(state_, std::move(call), deadline);
}
Task<> SimLink::remove_fragment(FragmentId id, Deadline deadline) {
  Call<void> call = [id, host = state_->host](VolumeClient& volume) {
    return volume.remove_fragment(id, host->bound());
  };
  return forward<void>(state_, std::move(call), deadline);
}

Task<> SimLink::probe(Deadline deadline) {
  Call<void> call = [host = state_->host](VolumeClient& volume) {
    return volume.probe(host->bound());
  };
  return forward<void>(state_, std::move(call), deadline);
}
Task<std::vector<FragmentId>> SimLink::pin_for_reader(std::vector<FragmentId> ids,
                                                      Deadline deadline) {
  Call<std::vector<FragmentId>> call = [ids, host = state_->host](VolumeClient& volume) {
    return volume.pin_for_reader(ids, host->bound());
  };
  return forward<std::vector<FragmentId>>(state_, std::move(call), deadline);
}
Task<> SimLink::remove_fragment_if(FragmentId id, RemovalRule rule, Deadline deadline) {
  Call<void> call = [id, rule, host = state_->host](VolumeClient& volume) {
    return volume.remove_fragment_if(id, rule, host->bound());
  };
  return forward<void>(state_, std::move(call), deadline);
}
Task<std::vector<FragmentEntry>> SimLink::list_fragments(std::optional<FragmentId> after,
                                                         std::uint32_t count, Deadline deadline) {
  const auto host = state_->host;
  Call<std::vector<FragmentEntry>> call = [after, count, host](VolumeClient& volume) {
    return volume.list_fragments(after, count, host->bound());
  };
  return forward<std::vector<FragmentEntry>>(state_, std::move(call), deadline);
}
Task<HintListReply> SimLink::list_hints(HintListRequest request, Deadline deadline) {
  Call<HintListReply> call = [request, host = state_->host](VolumeClient& volume) {
    return volume.list_hints(request, host->bound());
  };
  return forward<HintListReply>(state_, std::move(call), deadline);
}
Task<Ballot> SimLink::read_hint(HintName name, Deadline deadline) {
  Call<Ballot> call = [name, host = state_->host](VolumeClient& volume) {
    return volume.read_hint(name, host->bound());
  };
  return forward<Ballot>(state_, std::move(call), deadline);
}
Task<> SimLink::drop_hints(std::vector<HintName> names, Deadline deadline) {
  Call<void> call = [names, host = state_->host](VolumeClient& volume) {
    return volume.drop_hints(names, host->bound());
  };
  return forward<void>(state_, std::move(call), deadline);
}
Task<RegisterListReply> SimLink::list_registers(RegisterListRequest request, Deadline deadline) {
  Call<RegisterListReply> call = [request, host = state_->host](VolumeClient& volume) {
    return volume.list_registers(request, host->bound());
  };
  return forward<RegisterListReply>(state_, std::move(call), deadline);
}

Task<> SimLink::adopt(std::shared_ptr<const AdoptRequest> request, Deadline deadline) {
  Call<void> call = [request, state = state_](VolumeClient& volume) {
    return volume.adopt(request, state->host->bound());
  };
  return forward<void>(state_, std::move(call), deadline);
}
Task<SharedBytes> SimLink::read_map(Deadline deadline) {
  Call<SharedBytes> call = [state = state_](VolumeClient& volume) {
    return volume.read_map(state->host->bound());
  };
  return forward<SharedBytes>(state_, std::move(call), deadline);
}
Task<JoinState> SimLink::read_join_state(Deadline deadline) {
  Call<JoinState> call = [state = state_](VolumeClient& volume) {
    return volume.read_join_state(state->host->bound());
  };
  return forward<JoinState>(state_, std::move(call), deadline);
}

namespace {
template <class T>
Task<T> lost_note() {
  co_return fail(Errc::timeout, "lost");
}
}  // namespace

Task<NoteReply> SimLink::read_note(std::string name, Deadline deadline) {
  if (state_->wire->notes_unread) return lost_note<NoteReply>();
  Call<NoteReply> call = [name, state = state_](VolumeClient& volume) {
    return volume.read_note(name, state->host->bound());
  };
  return forward<NoteReply>(state_, std::move(call), deadline);
}
Task<> SimLink::put_note(std::string name, std::string bytes, Deadline deadline) {
  if (state_->wire->notes_untold) return lost_note<void>();
  Call<void> call = [name, bytes, state = state_](VolumeClient& volume) {
    return volume.put_note(name, bytes, state->host->bound());
  };
  return forward<void>(state_, std::move(call), deadline);
}

}  // namespace penstock::sim
