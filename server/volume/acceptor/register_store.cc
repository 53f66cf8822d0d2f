#include "server/volume/acceptor/register_store.h"

#include <algorithm>

#include "penstock/planted.h"
#include "penstock/row_key.h"

namespace penstock {
namespace {

constexpr std::size_t kInlineBytesMax = limits::kValueBytesMax;  // the policy's limit is far lower

Result<> check_prepare(const PrepareRequest& request) {
  CHECK_OK(check_register_key(request.key));
  if (request.ballot.is_zero()) return fail(Errc::invalid, "prepare: ballot zero");
  return {};
}

Result<> check_accept(const AcceptRequest& request) {
  CHECK_OK(check_register_key(request.key));
  if (request.ballot.is_zero()) return fail(Errc::invalid, "accept: ballot zero");
  if (!request.value || request.value->size() > limits::kValueBytesMax) {
    return fail(Errc::invalid, "accept: length of the value");
  }
  std::size_t hint_bytes = 0;
  for (const Hint& hint : request.hints) hint_bytes += stored_bytes(request.key, hint);
  if (request.hints.size() > limits::kHintsPerAcceptMax ||
      hint_bytes > limits::kHintBytesPerAcceptMax) {
    return fail(Errc::overloaded, "accept: too many hints");
  }
  auto head = decode_head(*request.value);
  if (!head) return fail(Errc::invalid, head.error().context);
  if (request.inline_bytes && (request.inline_bytes->size() != head->inline_bytes ||
                               request.inline_bytes->size() > kInlineBytesMax)) {
    return fail(Errc::invalid, "accept: length of the inline bytes");
  }
  return {};
}

}  // namespace

RegisterStore::RegisterStore(Database& database, Clock& clock, std::uint64_t start,
                             const VolumeMeta& meta, std::unique_ptr<Worker> commit_worker,
                             std::unique_ptr<Worker> read_worker, RegisterCommit::Hooks hooks,
                             RegisterStoreOptions options)
    : core_(database, clock, start, meta, options.cache_bytes, options.ballot_bytes,
            options.promise_slots),
      commit_(core_, *commit_worker, with_collector(std::move(hooks))),
      reader_(core_, *read_worker),
      collector_(core_, commit_),
      read_worker_(std::move(read_worker)),
      commit_worker_(std::move(commit_worker)) {}
RegisterStore::~RegisterStore() = default;

RegisterCommit::Hooks RegisterStore::with_collector(RegisterCommit::Hooks hooks) {
  hooks.after_batch = [this] { collector_.poke(); };
  return hooks;
}

std::optional<Result<PrepareReply>> RegisterStore::prepare_now(const PrepareRequest& request) {
  PrepareOutcome outcome;
  bool extend = false;
  {
    const CountedLock lock(core_.mutex);
    const RowPtr row = core_.rows.find(request.key).row;
    if (row == nullptr) return std::nullopt;
    outcome = try_prepare(core_, request, *row);
    extend = outcome.reply && outcome.reply->has_value() && outcome.reply->value().promised &&
             core_.acceptor.ceiling_is_near(request.ballot.counter);
  }
  if (extend) commit_.extend_ceiling(request.ballot.counter);
  if (outcome.from_future) report_future_ballot(core_, request.ballot);
  return std::move(outcome.reply);
}

Result<> RegisterStore::check_time(Deadline deadline) const {
  if (deadline < core_.clock.boot()) return fail(Errc::timeout, "the call came too late");
  return {};
}

Task<PrepareReply> RegisterStore::prepare(std::shared_ptr<const PrepareRequest> request,
                                          Deadline deadline) {
  CO_CHECK(check_prepare(*request));
  CO_CHECK(check_time(deadline));
  if (auto now = prepare_now(*request)) co_return std::move(*now);
  auto start = [this, request, deadline](Completion<PrepareReply> done) {
    commit_.submit(PrepareWork{request, deadline, std::move(done)});
  };
  co_return co_await core_.pending->wait<PrepareReply>(std::move(start), deadline);
}

Task<AcceptReply> RegisterStore::accept(std::shared_ptr<const AcceptRequest> request,
                                        Deadline deadline) {
  CO_CHECK(check_accept(*request));
  auto start = [this, request, deadline](Completion<AcceptReply> done) {
    commit_.submit(AcceptWork{request, deadline, std::move(done)});
  };
  co_return co_await core_.pending->wait<AcceptReply>(std::move(start), deadline, Errc::io);
}

std::optional<Result<Accepted>> RegisterStore::read_now(const ReadRequest& request) {
  return reader_.read_now(request);
}

bool RegisterStore::holds_now(const ReadRequest& request, const Ballot& ballot) {
  return reader_.holds_now(request, ballot);
}

Task<Accepted> RegisterStore::read(std::shared_ptr<const ReadRequest> request, Deadline deadline) {
  CO_CHECK(check_register_key(request->key));
  CO_CHECK(check_time(deadline));
  if (auto now = reader_.read_now(*request)) co_return std::move(*now);
  auto start = [this, request, deadline](Completion<Accepted> done) {
    reader_.read(request, deadline, std::move(done));
  };
  co_return co_await core_.pending->wait<Accepted>(std::move(start), deadline);
}

Task<ScanReply> RegisterStore::scan(std::shared_ptr<const ScanRequest> request, Deadline deadline) {
  if (request->fence.value != 0) {
    // The epoch is checked again by the scan; the fence must not be raised by a round of the past.
    ControlWork work;
    work.fences.emplace_back(request->bucket, request->fence);
    work.decide = [request](AcceptorState& acceptor) -> Result<std::vector<RowOp>> {
      CHECK_OK(acceptor.gate().check(request->round, request->bucket));
      return std::vector<RowOp>();
    };
    if (holds(Rule::fence_behind_queue)) {
      CO_CHECK(co_await control(std::move(work), deadline));
    } else {
      const CountedLock lock(core_.mutex);
      CO_CHECK(work.decide(core_.acceptor));
      core_.acceptor.gate().raise_fence(request->bucket, request->fence);
      core_.tell_gate();
    }
  }
  auto start = [this, request, deadline](Completion<ScanReply> done) {
    reader_.scan(request, deadline, std::move(done));
  };
  co_return co_await core_.pending->wait<ScanReply>(std::move(start), deadline);
}

Task<> RegisterStore::drop(std::shared_ptr<const DropRequest> request, Deadline deadline) {
  CO_CHECK(check_register_key(request->key));
  auto start = [this, request, deadline](Completion<void> done) {
    commit_.submit(DropWork{request, deadline, std::move(done)});
  };
  co_return co_await core_.pending->wait<void>(std::move(start), deadline, Errc::io);
}

Task<> RegisterStore::control(ControlWork work, Deadline deadline) {
  auto start = [this, work = std::move(work)](Completion<void> done) mutable {
    work.done = [ended = std::move(work.done), done = std::move(done)](Result<> result) {
      if (ended) ended(result);
      done(std::move(result));
    };
    commit_.submit(std::move(work));
  };
  co_return co_await core_.pending->wait<void>(std::move(start), deadline, Errc::io);
}

Task<> RegisterStore::set_epochs(std::vector<GroupEpoch> epochs) {
  co_return co_await adopt(std::move(epochs), JoinState(), Beside());
}

Task<> RegisterStore::adopt(std::vector<GroupEpoch> epochs, JoinState join, Beside beside,
                            Deadline deadline) {
  if (setting_epochs_.exchange(true)) {
    co_return fail(Errc::busy, "another change of the epochs is under way");
  }
  auto wanted = std::make_shared<const std::vector<GroupEpoch>>(std::move(epochs));
  ControlWork work;
  work.horizon = join.horizon;
  work.fences = std::move(join.fences);
  work.decide = [wanted, more = std::move(beside.rows)](
                    AcceptorState& acceptor) -> Result<std::vector<RowOp>> {
    TRY(changed, acceptor.gate().check_epochs(*wanted));
    std::vector<RowOp> all;
    if (more) {
      TRY(rows, more(!changed.empty()));
      all = std::move(rows);
    }
    for (const GroupEpoch& epoch : changed) {
      if (holds(Rule::epoch_synced)) all.push_back(epoch_row(epoch));
    }
    return all;
  };
  work.durable = [wanted, more = std::move(beside.durable)](AcceptorState& acceptor) {
    for (const GroupEpoch& epoch : *wanted) acceptor.gate().set_epoch(epoch);
    if (more) more();
  };
  // Whoever asked may be answered at a deadline, while this still waits for its batch: the next
  // change must not be compared with the epochs before it.
  work.done = [this](const Result<>&) { setting_epochs_ = false; };
  co_return co_await control(std::move(work), deadline);
}

Result<JoinState> RegisterStore::join_state() {
  const CountedLock lock(core_.mutex);
  if (core_.closed) return *core_.closed;
  JoinState state;
  state.horizon = core_.acceptor.horizon();
  for (const auto& [bucket, number] : core_.acceptor.gate().fences()) {
    state.fences.emplace_back(bucket, number);
  }
  std::sort(state.fences.begin(), state.fences.end());
  return state;
}

Task<> RegisterStore::commit_rows(std::vector<RowOp> rows, Deadline deadline,
                                  std::function<void()> durable) {
  ControlWork work;
  work.decide = [rows = std::move(rows)](AcceptorState&) mutable -> Result<std::vector<RowOp>> {
    return std::move(rows);
  };
  if (durable) work.durable = [more = std::move(durable)](AcceptorState&) { more(); };
  co_return co_await control(std::move(work), deadline);
}

void RegisterStore::abandon(const Error& why) {
  close(why);
  commit_.abandon(why);
  reader_.abandon(why);
  core_.pending->close(why);
  commit_worker_->abandon();
  read_worker_->abandon();
}

void RegisterStore::close(Error why) {
  const CountedLock lock(core_.mutex);
  core_.close(std::move(why));
}

}  // namespace penstock
