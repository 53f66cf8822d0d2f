#include <algorithm>

#include "penstock/fan_out.h"
#include "penstock/log.h"
#include "server/background/replacement/register_repair.h"
#include "server/background/replacement/register_walk.h"
#include "server/background/replacement/replacement_context.h"

namespace penstock {
namespace {

constexpr std::size_t kLooksAtOnce = 16;
constexpr std::size_t kRepairsAtOnce = 2;
constexpr std::size_t kQueueMax = 65'536;           // registers waiting for their turn, a key each
constexpr std::chrono::hours kFragmentDeadline{1};  // a fragment has up to 5 GiB
// Parts before objects: an upload that is completed meanwhile takes its parts' new places along.
constexpr RowKind kWalkOrder[] = {RowKind::part, RowKind::upload, RowKind::object};

struct Waiting {
  RegisterRef ref;
  int spares = 0;
  std::uint64_t fragments = 0;
  std::uint64_t bytes = 0;
};
bool more_urgent(const Waiting& a, const Waiting& b) { return a.spares < b.spares; }

RegisterRef walked_ref(RegisterWalk::Found found) {
  RegisterRef ref;
  ref.key = std::move(found.key);
  ref.partitions = found.partitions;
  return ref;
}

Task<RegisterHealth> examine_one(RegisterRepair* repair, RegisterRef ref, bool touch,
                                 Deadline deadline) {
  co_return co_await repair->examine(std::move(ref), touch, deadline);
}
Task<Repaired> repair_one(RegisterRepair* repair, RegisterRef ref, Deadline deadline) {
  co_return co_await repair->repair(std::move(ref), deadline);
}

class Pass {
 public:
  explicit Pass(ReplacementContext& context)
      : context_(context),
        repair_(context.parts.proposer, context.parts.blobs, context.parts.clock),
        touches_(std::exchange(context.touches, false)) {}

  Task<bool> run(std::shared_ptr<const ClusterMap> map, Volumes volumes) {
    context_.board.begin("looking for fragments", 0);
    for (const RowKind kind : kWalkOrder) CO_CHECK(co_await look(*map, volumes, kind));
    context_.board.change(
        [this](ReplacementStatus& status) { status.fragments_missing = missing_; });
    CO_CHECK(co_await work_off());
    if (why_) co_return std::move(*why_);
    // Nothing to do but wait: a reason to be shown, and to look again with less haste.
    if (queue_.empty() && waits_for_) {
      co_return fail(Errc::unavailable,
                     "key \"" + *waits_for_ + "\": an upload of it is being completed");
    }
    context_.touches = true;
    co_return queue_.empty() && touches_;
  }

 private:
  Task<> look(const ClusterMap& map, Volumes volumes, RowKind kind) {
    RegisterWalk walk(kind, std::move(volumes), context_.parts.clock,
                      context_.parts.options.page_rows);
    while (true) {
      if (context_.stopping.load()) co_return fail(Errc::aborted, "the process stops");
      CO_TRY(found, co_await walk.next(kLooksAtOnce, context_.soon()));
      if (found.empty()) break;
      co_await context_.rows.wait(static_cast<double>(found.size()));
      CO_CHECK(co_await look_at(std::move(found)));
    }
    if (!covers(map, walk.listed(), false)) co_return too_few_listed();
    co_return Result<>{};
  }

  Task<> look_at(std::vector<RegisterWalk::Found> found) {
    const auto executor = co_await boost::asio::this_coro::executor;
    FanOut<RegisterHealth> looks;
    std::vector<RegisterRef> refs;
    for (auto& row : found) refs.push_back(walked_ref(std::move(row)));
    for (const auto& ref : refs) {
      looks.start(executor, examine_one(&repair_, ref, touches_, context_.soon()));
    }
    co_await looks.wait_all();
    auto answers = looks.take();
    for (std::size_t i = 0; i < refs.size(); ++i) {
      if (!*answers[i]) {
        note(refs[i], answers[i]->error());
        continue;
      }
      const RegisterHealth health = answers[i]->value();
      missing_ += health.missing;
      if (health.waits && !waits_for_) waits_for_ = refs[i].key.key;
      if (health.misplaced == 0) continue;
      enqueue({std::move(refs[i]), health.spares, health.misplaced, health.bytes});
    }
    context_.board.step(refs.size());
    co_return Result<>{};
  }

  // A heap whose top is the least urgent: when it is full, that one waits for the next pass.
  void enqueue(Waiting waiting) {
    if (queue_.size() == kQueueMax) {
      if (!more_urgent(waiting, queue_.front())) return;
      std::pop_heap(queue_.begin(), queue_.end(), more_urgent);
      queue_.pop_back();
    }
    queue_.push_back(std::move(waiting));
    std::push_heap(queue_.begin(), queue_.end(), more_urgent);
  }

  Task<> work_off() {
    std::sort_heap(queue_.begin(), queue_.end(), more_urgent);
    std::uint64_t total = 0;
    for (const Waiting& waiting : queue_) total += waiting.fragments;
    if (total > 0) context_.board.begin("moving fragments", total);
    for (std::size_t first = 0; first < queue_.size(); first += kRepairsAtOnce) {
      if (context_.stopping.load()) co_return fail(Errc::aborted, "the process stops");
      CO_CHECK(co_await work_some(first, std::min(first + kRepairsAtOnce, queue_.size())));
    }
    co_return Result<>{};
  }

  Task<> work_some(std::size_t first, std::size_t last) {
    const auto executor = co_await boost::asio::this_coro::executor;
    const Deadline deadline = context_.parts.clock.boot() + Duration(kFragmentDeadline);
    FanOut<Repaired> repairs;
    for (std::size_t i = first; i < last; ++i) {
      co_await context_.bytes.wait(static_cast<double>(queue_[i].bytes));
      repairs.start(executor, repair_one(&repair_, queue_[i].ref, deadline));
    }
    co_await repairs.wait_all();
    const auto answers = repairs.take();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const RegisterRef& ref = queue_[first + i].ref;
      if (!*answers[i]) {
        note(ref, answers[i]->error());
        continue;
      }
      const Repaired done = answers[i]->value();
      if (done.unplaced > 0) note(ref, done.why);
      context_.board.step(done.fragments);
      context_.board.change([done](ReplacementStatus& status) {
        status.fragments_moved += done.fragments;
        status.bytes_moved += done.bytes;
      });
    }
    co_return Result<>{};
  }

  // The pass goes on with the others; what failed is tried again by the next one.
  void note(const RegisterRef& ref, const Error& error) {
    if (why_) return;
    why_ = fail(error.code, "key \"" + ref.key.key + "\": " + error.context);
    log_event(LogLevel::warn, "fragment_not_moved", {{"reason", why_->context}});
  }

  ReplacementContext& context_;
  RegisterRepair repair_;
  const bool touches_;
  std::vector<Waiting> queue_;
  std::uint64_t missing_ = 0;
  std::optional<std::string> waits_for_;  // a key with an upload that must be looked at again
  std::optional<Error> why_;
};

}  // namespace

Task<bool> move_fragments(ReplacementContext& context, std::shared_ptr<const ClusterMap> map,
                          Volumes volumes) {
  Pass pass(context);
  co_return co_await pass.run(std::move(map), std::move(volumes));
}

}  // namespace penstock
