#include "server/index/bucket_catalog.h"

#include <algorithm>

#include "penstock/planted.h"

namespace penstock {
namespace {
constexpr Duration kDeletingPoll = std::chrono::milliseconds(50);

class CreateBucket final : public RegisterUpdate {
 public:
  CreateBucket(BucketRecord record, OpId op_id) : record_(std::move(record)), op_id_(op_id) {}

  Task<Decision> decide(const Snapshot& current) override {
    Decision decision;
    decision.action = Decision::Action::keep;
    if (!current.live()) {
      decision.action = Decision::Action::write;
      decision.value = to_value(record_);
    }
    co_return decision;
  }
  OpId op_id() const override { return op_id_; }

 private:
  BucketRecord record_;
  OpId op_id_;
};

std::shared_ptr<const Bucket> make_bucket(std::string name, BucketRecord record) {
  auto bucket = std::make_shared<Bucket>();
  bucket->name = std::move(name);
  bucket->record = std::move(record);
  return bucket;
}
}  // namespace

BucketCatalog::BucketCatalog(Membership& membership, Proposer& proposer, Clock& clock,
                             Random& random)
    : membership_(membership), proposer_(proposer), clock_(clock), random_(random) {}

RegisterRef BucketCatalog::register_of(const std::string& name) {
  RegisterRef ref;
  ref.key.kind = RowKind::object;
  ref.key.key = name;
  return ref;
}

std::shared_ptr<const Bucket> BucketCatalog::cached(const std::string& name) const {
  const BootTime now = clock_.boot();
  const Part& part = parts_.mine();
  const std::lock_guard lock(part.mutex);
  const auto found = part.cache.find(name);
  if (found == part.cache.end() || found->second.until <= now) return nullptr;
  return found->second.bucket;
}

void BucketCatalog::forget(const std::string& name) {
  parts_.all([&name](Part& part) {
    const std::lock_guard lock(part.mutex);
    part.cache.erase(name);
  });
}

// The answer is as old as the question.
void BucketCatalog::remember(std::shared_ptr<const Bucket> bucket, BootTime asked) {
  Part& part = parts_.mine();
  const std::lock_guard lock(part.mutex);
  // Entries live for a second: what is thrown away here is soon asked for again or never.
  if (part.cache.size() >= limits::kBucketCacheEntries) part.cache.clear();
  const std::string name = bucket->name;
  part.cache[name] = Cached{std::move(bucket), asked + limits::kBucketCacheAge};
}

Task<std::shared_ptr<const Bucket>> BucketCatalog::read(std::string name, Deadline deadline) {
  const RegisterRef ref = register_of(name);
  CO_TRY(now, co_await proposer_.read(ref, ReadWant::value, deadline));
  if (!now.live()) co_return std::shared_ptr<const Bucket>();
  CO_TRY(record, bucket_record(*now.value));
  co_return make_bucket(std::move(name), std::move(record));
}

Task<std::shared_ptr<const Bucket>> BucketCatalog::find(std::string name, Duration patience,
                                                        Deadline deadline) {
  if (auto known = cached(name)) co_return known;
  const Deadline until = deadline.capped(clock_.boot() + patience);
  for (;;) {
    const BootTime asked = clock_.boot();
    CO_TRY(bucket, co_await read(name, deadline));
    if (!bucket) co_return fail(Errc::not_found, "no such bucket");
    if (bucket->record.state == BucketState::open) {
      remember(bucket, asked);
      co_return bucket;
    }
    if (clock_.boot() + kDeletingPoll >= until) {
      co_return fail(Errc::busy, "the bucket is being deleted");
    }
    co_await clock_.sleep_until(clock_.boot() + kDeletingPoll);
  }
}

BucketRecord BucketCatalog::new_record(std::string owner, std::string region) {
  BucketRecord record;
  record.id = BucketId{holds(Rule::bucket_id) ? random_.next() : 1};
  record.number = BucketNumber{1};
  record.partitions = partitions_for_new_bucket(*membership_.map());
  record.owner = std::move(owner);
  record.created = clock_.wall();
  record.region = std::move(region);
  return record;
}

Task<BucketCatalog::Created> BucketCatalog::create(std::string name, BucketRecord record,
                                                   Duration patience, Deadline deadline) {
  const RegisterRef ref = register_of(name);
  const Deadline until = deadline.capped(clock_.boot() + patience);
  for (;;) {
    CreateBucket update(record, proposer_.new_op_id());
    CO_TRY(now, co_await proposer_.update(ref, update, deadline));
    Created created;
    // The value that is settled says whose bucket it is: what decide() saw need not be chosen.
    if (now.value->chain_contains(update.op_id())) {
      created.bucket = make_bucket(std::move(name), std::move(record));
      co_return created;
    }
    CO_TRY(existing, bucket_record(*now.value));
    if (existing.state == BucketState::open) {
      created.bucket = make_bucket(std::move(name), std::move(existing));
      created.existed = true;
      co_return created;
    }
    if (clock_.boot() + kDeletingPoll >= until) {
      co_return fail(Errc::busy, "a bucket of this name is being deleted");
    }
    co_await clock_.sleep_until(clock_.boot() + kDeletingPoll);
  }
}

}  // namespace penstock
