#include "server/volume/acceptor/register_commit.h"

#include "penstock/caught.h"
#include "penstock/log.h"
#include "server/volume/acceptor/commit_batch.h"

namespace penstock {
namespace {

constexpr std::size_t kBatchWorks = 256;
constexpr std::size_t kBatchBytes = 2 * limits::kMiB;

std::size_t bytes_of(const CommitWork& work) {
  std::size_t bytes = 0;
  if (const auto* move = std::get_if<MoveWork>(&work)) {
    for (const BodyMove& body : move->moves) bytes += body.bytes->size();
  }
  const auto* accept = std::get_if<AcceptWork>(&work);
  if (accept == nullptr) return bytes;
  const AcceptRequest& request = *accept->request;
  bytes += request.value->size();
  if (request.inline_bytes) bytes += request.inline_bytes->size();
  for (const Hint& hint : request.hints) bytes += stored_bytes(request.key, hint);
  return bytes;
}

void answer_error(const CommitWork& work, const Error& error) {
  std::visit(
      [&](const auto& call) {
        if constexpr (std::is_same_v<std::decay_t<decltype(call)>, ControlWork>) {
          if (call.done) call.done(error);
        } else {
          call.done(error);
        }
      },
      work);
}

std::optional<Deadline> deadline_of(const CommitWork& work) {
  return std::visit(
      [](const auto& call) -> std::optional<Deadline> {
        if constexpr (requires { call.deadline; }) {
          return call.deadline;
        } else {
          return std::nullopt;
        }
      },
      work);
}

}  // namespace

PrepareOutcome try_prepare(RegisterCore& core, const PrepareRequest& request,
                           const RegisterRow& row) {
  PrepareOutcome outcome;
  if (auto passes = core.gate(request.round, request.key.bucket); !passes) {
    outcome.reply = Result<PrepareReply>(passes.error());
    return outcome;
  }
  const std::uint64_t hash = RegisterKeyHash{}(request.key);
  const Verdict verdict = core.acceptor.prepare(hash, request.ballot, request.round.follows,
                                                row.ballot, core.clock.wall());
  if (verdict == Verdict::raise_ceiling) {
    outcome.raise_ceiling = true;
    return outcome;
  }
  PrepareReply reply;
  reply.promised = verdict == Verdict::pass;
  if (!reply.promised) reply.demand_ballot = core.acceptor.demand(hash, row.ballot);
  reply.accepted = row.accepted(ReadWant::value);
  reply.horizon = core.acceptor.horizon();
  outcome.from_future = verdict == Verdict::refuse_future;
  outcome.reply = Result<PrepareReply>(std::move(reply));
  return outcome;
}

void report_future_ballot(RegisterCore& core, Ballot ballot) {
  {
    constexpr std::chrono::minutes kQuiet{1};
    const CountedLock lock(core.mutex);
    const BootTime now = core.clock.boot();
    if (core.future_reported && now - *core.future_reported < kQuiet) return;
    core.future_reported = now;
  }
  log_event(LogLevel::error, "ballot_from_the_future",
            {{"counter_us", std::to_string(ballot.counter)},
             {"clock_us", std::to_string(core.clock.wall().time_since_epoch().count())}});
}

RegisterCommit::RegisterCommit(RegisterCore& core, Worker& worker, Hooks hooks)
    : core_(core), worker_(worker), hooks_(std::move(hooks)) {}

void RegisterCommit::submit(CommitWork work) {
  bool wake = false;
  bool overloaded = false;
  {
    std::lock_guard lock(mutex_);
    overloaded = queue_.size() >= limits::kVolumeQueueMax;
    if (!overloaded) {
      queue_.push_back(std::move(work));
      wake = !std::exchange(running_, true);
    }
  }
  if (overloaded) answer_error(work, fail(Errc::overloaded, "the volume's queue is full"));
  if (wake) worker_.submit([this] { run(); });
}

void RegisterCommit::extend_ceiling(std::uint64_t counter) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(extending_, true)) return;
  }
  ControlWork work;
  work.ceiling = AcceptorState::ceiling_for(counter);
  work.done = [this](Result<>) {  // a failure closes the volume elsewhere; later is soon enough
    std::lock_guard lock(mutex_);
    extending_ = false;
  };
  submit(std::move(work));
}

void RegisterCommit::abandon(const Error& why) {
  std::deque<CommitWork> waiting;
  {
    std::lock_guard lock(mutex_);
    waiting.swap(queue_);
  }
  for (CommitWork& work : waiting) answer_error(work, why);
}

std::vector<CommitWork> RegisterCommit::take() {
  std::vector<CommitWork> works;
  std::size_t bytes = 0;
  std::lock_guard lock(mutex_);
  while (!queue_.empty() && works.size() < kBatchWorks && bytes < kBatchBytes) {
    bytes += bytes_of(queue_.front());
    works.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  if (works.empty()) running_ = false;
  return works;
}

void RegisterCommit::run() {
  while (true) {
    std::vector<CommitWork> works;
    try {
      works = take();
      if (works.empty()) return;
      serve(works);
    } catch (...) {
      abandon(works, error_of_exception("a group commit"));
    }
  }
}

void RegisterCommit::serve(std::vector<CommitWork> works) {
  std::optional<Error> closed;
  {
    const CountedLock lock(core_.mutex);
    closed = core_.closed;
  }
  const BootTime now = core_.clock.boot();
  std::erase_if(works, [&](CommitWork& work) {
    const auto deadline = deadline_of(work);
    if (closed) {
      answer_error(work, *closed);
    } else if (deadline && *deadline < now) {
      answer_error(work, fail(Errc::timeout, "waited too long in the volume's queue"));
    } else {
      return false;
    }
    return true;
  });
  if (works.empty()) return;
  CommitBatch batch(core_, hooks_.is_full());
  const auto done = batch.run(std::move(works));
  if (!done) hooks_.on_failure(done.error());
  if (done && hooks_.after_batch) hooks_.after_batch();
  auto& deferred = batch.deferred();
  // A prepare that waits for a higher ceiling would find the same at once, over and over.
  if (batch.refused()) {
    for (const CommitWork& work : std::exchange(deferred, {})) answer_error(work, *batch.refused());
  }
  std::lock_guard lock(mutex_);
  queue_.insert(queue_.begin(), std::make_move_iterator(deferred.begin()),
                std::make_move_iterator(deferred.end()));
}

// A batch that threw may be written or not, in the database and in memory: the volume ends here,
// and all who wait are told. Those who were answered before do not hear it.
void RegisterCommit::abandon(const std::vector<CommitWork>& works, const Error& error) {
  {
    const CountedLock lock(core_.mutex);
    core_.close(fail(Errc::unavailable, error.context));
  }
  hooks_.on_failure(error);
  for (const CommitWork& work : works) answer_error(work, error);
}

}  // namespace penstock
