#include "server/background/removal/stray_rows.h"

#include <algorithm>

#include "server/objects/object_updates.h"

namespace penstock {
namespace {

// Whatever is there goes, and what it names is freed.
class EndRow final : public RegisterUpdate {
 public:
  EndRow(WallTime due, OpId op_id) : due_(due), op_id_(op_id) {}
  Task<Decision> decide(const Snapshot& current) override {
    Decision decision;
    decision.action = Decision::Action::keep;
    if (!current.live()) co_return decision;
    decision.action = Decision::Action::write;
    decision.value = tombstone_value();
    if (current.kind() == ValueKind::object) {
      CO_TRY(hints, freed_by(current, decision.value, due_));
      decision.hints = std::move(hints);
    }
    co_return decision;
  }
  OpId op_id() const override { return op_id_; }

 private:
  WallTime due_;
  OpId op_id_;
};

}  // namespace

Task<> StrayRows::pass() {
  Progress progress(context_, "rows", 0);
  upload_.reset();
  there_.clear();
  gone_.clear();
  Result<> whole;
  const std::vector<VolumeId> volumes = context_.local_volumes();
  for (const VolumeId volume : volumes) {
    for (const RowKind kind : {RowKind::object, RowKind::part}) {
      auto looked = co_await look_at(volume, kind, progress);
      if (!looked) whole = std::move(looked);
      if (context_.stops()) co_return Result<>{};
    }
  }
  co_return whole;
}

Task<> StrayRows::look_at(VolumeId volume, RowKind kind, Progress& progress) {
  const auto client = context_.membership.volume(volume);
  if (client == nullptr) co_return fail(Errc::unavailable, "no such volume here");
  RegisterListRequest request;
  request.kind = kind;
  request.rows_max = context_.options.page_rows;
  do {
    if (!co_await pace_.turn()) co_return Result<>{};
    CO_TRY(page, co_await client->list_registers(request, context_.step_deadline()));
    request.after = std::move(page.covered);
    for (RegisterEntry& row : page.rows) {
      progress.step();
      if (!is_live(row.kind) || row.key.bucket.value == 0) continue;
      const auto rank =
          rank_in_group(context_, volume, row.key.bucket, row.partitions, row.key.key);
      if (!rank) continue;
      const auto turn = static_cast<Duration::rep>(*rank) * context_.options.takeover;
      if (*rank > 0 && !is_older(context_, row.ballot, turn)) continue;
      CO_TRY(stray, co_await is_stray(row));
      if (!stray) continue;
      if (!co_await pace_.turn()) co_return Result<>{};
      // What fails now is tried again in the next pass.
      (void)co_await end(row_of(std::move(row.key), row.partitions));
    }
  } while (request.after);
  co_return Result<>{};
}

Task<bool> StrayRows::is_stray(const RegisterEntry& row) {
  if (row.key.kind == RowKind::object) co_return co_await bucket_is_gone(row.key.bucket);
  FragmentOwner owner{row.key.bucket, row.partitions, row.key.key, row.key.upload_id};
  if (!upload_ || upload_->first != owner) {
    if (!co_await pace_.turn()) co_return false;
    const RegisterRef ref = upload_of(owner);
    CO_TRY(now, co_await context_.proposer.read(ref, ReadWant::value, context_.step_deadline()));
    upload_.emplace(std::move(owner), now.live());
  }
  co_return !upload_->second;
}

Task<bool> StrayRows::bucket_is_gone(BucketId bucket) {
  if (there_.contains(bucket)) co_return false;
  if (gone_.contains(bucket)) co_return true;
  if (!co_await pace_.turn()) co_return false;
  CO_TRY(buckets, co_await context_.index.list_buckets("", context_.step_deadline()));
  for (const Bucket& known : buckets) there_.insert(known.record.id);
  if (!there_.contains(bucket)) gone_.insert(bucket);
  co_return gone_.contains(bucket);
}

Task<> StrayRows::end(RegisterRef ref) {
  const Deadline deadline = context_.step_deadline();
  CO_TRY(now, co_await context_.proposer.write_back(ref, WriteBack::complete, true, deadline));
  if (now.live()) {
    EndRow update(context_.clock.wall() + context_.options.hint_delay,
                  context_.proposer.new_op_id());
    CO_CHECK(co_await context_.proposer.update_background(ref, update, deadline));
  }
  context_.board->change([](BackgroundStatus& status) { ++status.stray_rows_ended; });
  co_return Result<>{};
}

}  // namespace penstock
