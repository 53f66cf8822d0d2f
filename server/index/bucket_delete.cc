#include "server/index/bucket_delete.h"

#include "penstock/planted.h"

namespace penstock {
namespace {
// Moves a bucket from one exact (id, number, state) to the next; refuses if it has moved already.
class MoveBucket final : public RegisterUpdate {
 public:
  // `next` empty: the tombstone.
  MoveBucket(BucketRecord from, std::optional<BucketRecord> next, OpId op_id)
      : from_(std::move(from)), next_(std::move(next)), op_id_(op_id) {}

  Task<Decision> decide(const Snapshot& current) override {
    Decision decision;
    decision.error = fail(Errc::busy, "the bucket was changed by someone else");
    if (!current.live()) co_return decision;
    CO_TRY(record, bucket_record(*current.value));
    const bool same =
        record.id == from_.id && record.number == from_.number && record.state == from_.state;
    if (!same) co_return decision;
    decision.action = Decision::Action::write;
    decision.value = next_ ? to_value(*next_) : tombstone_value();
    co_return decision;
  }
  OpId op_id() const override { return op_id_; }

 private:
  BucketRecord from_;
  std::optional<BucketRecord> next_;
  OpId op_id_;
};

BucketRecord moved_to(BucketRecord record, BucketState state) {
  record.state = state;
  if (holds(Rule::fenced_number)) ++record.number.value;
  return record;
}

// Is there a live key from `start` on? `fence` non-zero: step (2).
Task<bool> has_live_key(ListContext context, BucketRecord record, BucketNumber fence,
                        Deadline deadline, std::string start = {}) {
  WalkRequest request;
  request.start = std::move(start);
  request.bucket = record.id;
  request.number = record.number;
  request.partitions = record.partitions;
  request.bounded = false;
  request.fence = fence;
  RowWalk walk(context, std::move(request));
  for (;;) {
    if (walk.next()) co_return true;
    if (walk.done()) co_return false;
    CO_CHECK(co_await walk.fill(deadline));
  }
}

Task<> move_bucket(Proposer& proposer, const std::string& name, BucketRecord from,
                   std::optional<BucketRecord> next, Deadline deadline) {
  const RegisterRef ref = BucketCatalog::register_of(name);
  MoveBucket update(std::move(from), std::move(next), proposer.new_op_id());
  CO_CHECK(co_await proposer.update(ref, update, deadline));
  co_return Result<>{};
}

// What became of `deleting` when another deleter was faster.
Result<> outcome_of(const std::shared_ptr<const Bucket>& now, const BucketRecord& deleting) {
  if (!now || now->record.id != deleting.id) return {};
  if (now->record.state == BucketState::open) {
    return fail(Errc::precondition, "the bucket is not empty");
  }
  return fail(Errc::busy, "the bucket is being deleted");
}

// Steps (2) and (3).
Task<> finish_delete(ListContext context, BucketCatalog& catalog, std::string name,
                     BucketRecord deleting, Deadline deadline) {
  const bool listed = holds(Rule::fenced_list);
  bool occupied = false;
  if (listed) {
    BucketRecord seen = deleting;
    BucketNumber fence = deleting.number;
    if (!holds(Rule::fenced_scan)) {
      CO_CHECK(co_await has_live_key(context, deleting, fence, deadline, "\xff"));
      ++seen.number.value;
      fence = BucketNumber();
    }
    CO_TRY(found, co_await has_live_key(context, std::move(seen), fence, deadline));
    occupied = found;
  }
  std::optional<BucketRecord> next;
  if (occupied) next = moved_to(deleting, BucketState::open);
  auto moved = co_await move_bucket(context.proposer, name, deleting, std::move(next), deadline);
  catalog.forget(name);
  if (moved) {
    if (occupied) co_return fail(Errc::precondition, "the bucket is not empty");
    co_return Result<>{};
  }
  if (moved.error().code != Errc::busy) co_return moved.error();
  CO_TRY(now, co_await catalog.read(name, deadline));
  co_return outcome_of(now, deleting);
}
}  // namespace

Task<> delete_bucket(ListContext context, BucketCatalog& catalog, std::string name,
                     Deadline deadline) {
  CO_TRY(bucket, co_await catalog.read(name, deadline));
  if (!bucket) co_return fail(Errc::not_found, "no such bucket");
  BucketRecord record = bucket->record;
  if (record.state == BucketState::open) {
    const BucketNumber no_fence;
    CO_TRY(occupied, co_await has_live_key(context, record, no_fence, deadline));
    if (occupied) co_return fail(Errc::precondition, "the bucket is not empty");
    BucketRecord deleting = moved_to(record, BucketState::deleting);
    auto moved = co_await move_bucket(context.proposer, name, record, deleting, deadline);
    catalog.forget(name);
    if (!moved && moved.error().code != Errc::busy) co_return moved.error();
    if (moved) record = std::move(deleting);
  }
  if (record.state == BucketState::open) {  // another deleter was faster: go on where it stands
    CO_TRY(now, co_await catalog.read(name, deadline));
    if (!now || now->record.id != record.id) co_return Result<>{};
    record = now->record;
    if (record.state == BucketState::open) {
      co_return fail(Errc::precondition, "the bucket is not empty");
    }
  }
  co_return co_await finish_delete(context, catalog, std::move(name), std::move(record), deadline);
}

Task<> roll_bucket_forward(ListContext context, BucketCatalog& catalog, std::string name,
                           Deadline deadline) {
  CO_TRY(bucket, co_await catalog.read(name, deadline));
  if (!bucket || bucket->record.state == BucketState::open) co_return Result<>{};
  BucketRecord record = bucket->record;
  auto ended =
      co_await finish_delete(context, catalog, std::move(name), std::move(record), deadline);
  if (ended || ended.error().code == Errc::precondition) co_return Result<>{};
  co_return ended;
}

}  // namespace penstock
