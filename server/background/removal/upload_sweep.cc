#include "server/background/removal/upload_sweep.h"

#include "penstock/planted.h"
#include "server/objects/upload_moves.h"

namespace penstock {
namespace {

// Deletes a register, if it still holds what `expected` says: any live value, or an ended upload.
class Forget final : public RegisterUpdate {
 public:
  Forget(bool upload, OpId op_id) : upload_(upload), op_id_(op_id) {}
  Task<Decision> decide(const Snapshot& current) override {
    Decision decision;
    decision.error = fail(Errc::aborted, "the upload has moved");
    const ValueKind kind = current.kind();
    const bool ended = kind == ValueKind::upload_done || kind == ValueKind::upload_aborted;
    if (!current.live()) {
      decision.action = Decision::Action::keep;
    } else if (!upload_ || ended) {
      decision.action = Decision::Action::write;
      decision.value = tombstone_value();
    }
    co_return decision;
  }
  OpId op_id() const override { return op_id_; }

 private:
  bool upload_;
  OpId op_id_;
};

std::shared_ptr<const Bucket> fenceless(BucketId id, std::uint32_t partitions) {
  auto bucket = std::make_shared<Bucket>();
  bucket->record.id = id;
  bucket->record.number = kPassesFences;
  bucket->record.partitions = partitions;
  return bucket;
}

}  // namespace

Task<> UploadSweep::pass() {
  Progress progress(context_, "uploads", 0);
  Result<> whole;
  ++passes_;
  waits_ = false;
  const std::vector<VolumeId> volumes = context_.local_volumes();
  for (const VolumeId volume : volumes) {
    auto swept = co_await sweep_volume(volume, progress);
    if (!swept) whole = std::move(swept);
    if (context_.stops()) co_return Result<>{};
  }
  if (whole) {
    std::erase_if(noted_, [this](const auto& entry) { return entry.second.pass != passes_; });
  }
  co_return whole;
}

Task<> UploadSweep::sweep_volume(VolumeId volume, Progress& progress) {
  const auto client = context_.membership.volume(volume);
  if (client == nullptr) co_return fail(Errc::unavailable, "no such volume here");
  RegisterListRequest request;
  request.rows_max = context_.options.page_rows;
  do {
    if (!co_await pace_.turn()) co_return Result<>{};
    CO_TRY(page, co_await client->list_registers(request, context_.step_deadline()));
    request.after = std::move(page.covered);
    std::erase_if(page.rows, [&](const RegisterEntry& row) { return !wants_work(volume, row); });
    if (page.rows.empty()) continue;
    // After the rows: a bucket that is not there any more can have no new uploads.
    CO_TRY(buckets, co_await context_.index.list_buckets("", context_.step_deadline()));
    for (RegisterEntry& row : page.rows) {
      if (!co_await pace_.turn()) co_return Result<>{};
      Home home;
      home.fenceless = fenceless(row.key.bucket, row.partitions);
      for (const Bucket& bucket : buckets) {
        if (bucket.record.id != row.key.bucket) continue;
        home.bucket = std::make_shared<const Bucket>(bucket);
        home.busy = bucket.record.state != BucketState::open;
      }
      // What fails now is tried again in the next pass.
      (void)co_await look_after(volume, std::move(home), std::move(row));
      progress.step();
    }
  } while (request.after);
  co_return Result<>{};
}

// How much later than the group's first live volume this one does its work; nullopt: never.
std::optional<Duration> UploadSweep::turn_of(VolumeId volume, const RegisterEntry& row) const {
  const auto rank = rank_in_group(context_, volume, row.key.bucket, row.partitions, row.key.key);
  if (!rank) return std::nullopt;
  return static_cast<Duration::rep>(*rank) * context_.options.takeover;
}

bool UploadSweep::wants_work(VolumeId volume, const RegisterEntry& row) const {
  const auto turn = turn_of(volume, row);
  if (!turn) return false;
  switch (row.kind) {
    case ValueKind::upload_open:
      return *turn == Duration{} || is_older(context_, row.ballot, *turn);
    case ValueKind::upload_completing:
    case ValueKind::upload_reopening:
      return true;  // has_stopped() says more
    case ValueKind::upload_done:
    case ValueKind::upload_aborted:
      return is_older(context_, row.ballot, context_.options.upload_kept + *turn);
    default:
      return false;
  }
}

// Before that its Complete may live, which need not give up where a sweeper must.
bool UploadSweep::has_stopped(VolumeId volume, const RegisterEntry& row, const Ballot& now) {
  const auto turn = turn_of(volume, row);
  if (!turn) return false;
  const Duration wait = context_.options.roll_forward_after + *turn;
  if (!holds(Rule::stopped_by_rounds)) return is_older(context_, now, wait);
  waits_ = waits_ || *turn == Duration{};
  const BootTime looked = context_.clock.boot();
  const auto known = noted_.find({volume, row.key});
  // Without room it waits until others are done.
  if (known == noted_.end() && noted_.size() >= limits::kAttemptsNotedMax) return false;
  Noted& noted = known == noted_.end() ? noted_[{volume, row.key}] : known->second;
  if (noted.ballot != now) noted = {now, looked};
  noted.pass = passes_;
  return looked - noted.since >= wait;
}

Task<> UploadSweep::look_after(VolumeId volume, Home home, RegisterEntry row) {
  if (home.busy) co_return Result<>{};  // its deleter decides first
  const Deadline deadline = context_.step_deadline();
  UploadName name;
  name.bucket = home.fenceless;
  name.key = row.key.key;
  name.upload_id = row.key.upload_id;
  const RegisterRef ref = name.upload();
  CO_TRY(now, co_await context_.proposer.read(ref, ReadWant::value, deadline));
  if (!now.live()) {
    // Only a minority holds the row: one never chosen, or one that missed the tombstone. The
    // complete write-back overwrites it everywhere, or finds it after all: then it is the next
    // pass's.
    CO_CHECK(co_await context_.proposer.write_back(ref, WriteBack::complete, true, deadline));
    co_return Result<>{};
  }
  CO_TRY(upload, upload_record(*now.value));
  switch (now.kind()) {
    case ValueKind::upload_open:
      co_return co_await end_open(std::move(home), std::move(name), std::move(upload), deadline);
    case ValueKind::upload_completing:
    case ValueKind::upload_reopening:
      if (!has_stopped(volume, row, now.ballot)) co_return Result<>{};
      co_return co_await roll_forward(std::move(home), std::move(name), std::move(upload),
                                      deadline);
    default:
      if (!is_older(context_, now.ballot, context_.options.upload_kept)) co_return Result<>{};
      co_return co_await forget(std::move(name));
  }
}

Task<> UploadSweep::end_open(Home home, UploadName name, UploadRecord upload, Deadline deadline) {
  const WallTime now = context_.clock.wall();
  const bool expired = now >= upload.initiated + context_.options.upload_expiry;
  if (home.bucket && !expired) co_return Result<>{};
  Index& index = context_.index;
  CO_TRY(parts, co_await index.list_parts(name.bucket, name.key, name.upload_id, deadline));
  const WallTime due = now + context_.options.hint_delay;
  std::vector<Hint> freed;
  for (const PartInfo& part : parts) {
    if (part.blob) freed.push_back(hint_for(*part.blob, due, name.upload_id));
  }
  CO_TRY(aborted,
         co_await abort_open(context_.proposer, name.upload(), std::move(freed), deadline));
  if (aborted) {
    context_.board->change([](BackgroundStatus& status) { ++status.uploads_expired; });
  }
  co_return Result<>{};
}

// In a living bucket its own number counts: a Complete must not make an object behind the back of
// who deletes the bucket. In a deleted one nothing can be completed any more.
Task<> UploadSweep::roll_forward(Home home, UploadName name, UploadRecord upload,
                                 Deadline deadline) {
  ApplyContext apply{context_.index, context_.proposer, context_.clock,
                     context_.options.hint_delay};
  apply.only_onto_seen = true;
  const RegisterRef ref = name.upload();
  if (home.bucket) {
    name.bucket = home.bucket;
    CO_CHECK(co_await apply_attempt(apply, name, upload.attempt, nullptr, deadline));
  } else {
    CO_CHECK(co_await begin_reopening(context_.proposer, ref, upload.attempt, deadline));
  }
  CO_TRY(now, co_await context_.proposer.read(ref, ReadWant::value, deadline));
  if (now.kind() == ValueKind::upload_reopening) {
    CO_TRY(record, upload_record(*now.value));
    CO_CHECK(co_await give_up_attempt(apply, name, record.attempt, deadline));
  }
  context_.board->change([](BackgroundStatus& status) { ++status.uploads_rolled_forward; });
  co_return Result<>{};
}

// The parts first: without the upload's row nobody would know that they have ended. There may be
// thousands, each is a step.
Task<> UploadSweep::forget(UploadName name) {
  Index& index = context_.index;
  CO_TRY(parts, co_await index.list_parts(name.bucket, name.key, name.upload_id,
                                          context_.step_deadline()));
  for (const PartInfo& part : parts) {
    if (!co_await pace_.turn()) co_return Result<>{};
    const RegisterRef ref = Index::part(*name.bucket, name.key, name.upload_id, part.number);
    Forget update(false, context_.proposer.new_op_id());
    CO_CHECK(co_await context_.proposer.update_background(ref, update, context_.step_deadline()));
  }
  const RegisterRef ref = name.upload();
  Forget update(true, context_.proposer.new_op_id());
  CO_CHECK(co_await context_.proposer.update_background(ref, update, context_.step_deadline()));
  context_.board->change([](BackgroundStatus& status) { ++status.uploads_forgotten; });
  co_return Result<>{};
}

}  // namespace penstock
