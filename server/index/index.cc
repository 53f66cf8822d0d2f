#include "server/index/index.h"

#include <mutex>
#include <set>

#include "server/index/bucket_delete.h"

namespace penstock {
namespace {
// The one place of a name in a set, while it lives.
class Turn {
 public:
  Turn(std::mutex& mutex, std::set<std::string>& names, std::string name)
      : mutex_(mutex), names_(names), name_(std::move(name)) {
    const std::lock_guard lock(mutex_);
    taken_ = names_.insert(name_).second;
  }
  ~Turn() {
    if (!taken_) return;
    const std::lock_guard lock(mutex_);
    names_.erase(name_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool taken() const { return taken_; }

 private:
  std::mutex& mutex_;
  std::set<std::string>& names_;
  const std::string name_;
  bool taken_ = false;
};

RegisterRef register_of(const Bucket& bucket, RowKind kind, std::string key) {
  RegisterRef ref;
  ref.key.kind = kind;
  ref.key.bucket = bucket.record.id;
  ref.key.key = std::move(key);
  ref.number = bucket.record.number;
  ref.partitions = bucket.record.partitions;
  return ref;
}
}  // namespace

struct Index::State {
  ListContext context;
  BucketCatalog catalog;
  std::mutex mutex{};
  std::set<std::string> rolled_forward{};  // buckets whose removal is gone on with right now
};

Index::Index(Membership& membership, Proposer& proposer, Clock& clock, Random& random)
    : state_(new State{{membership, proposer, clock}, {membership, proposer, clock, random}}) {}
Index::~Index() = default;

Task<std::shared_ptr<const Bucket>> Index::bucket(std::string name, Deadline deadline) {
  auto found = co_await state_->catalog.find(name, limits::kBucketTakeover, deadline);
  if (found || found.error().code != Errc::busy) co_return found;
  // If this fails another may succeed: the bucket is waited for as before.
  (void)co_await roll_bucket_forward(name, deadline);
  co_return co_await state_->catalog.find(std::move(name), limits::kBucketDeletingWait, deadline);
}

Task<std::shared_ptr<const Bucket>> Index::bucket_in_any_state(std::string name,
                                                               Deadline deadline) {
  CO_TRY(bucket, co_await state_->catalog.read(std::move(name), deadline));
  if (!bucket) co_return fail(Errc::not_found, "no such bucket");
  co_return bucket;
}

std::shared_ptr<const Bucket> Index::cached_bucket(const std::string& name) {
  return state_->catalog.cached(name);
}

void Index::forget_bucket(const std::string& name) { state_->catalog.forget(name); }

Task<Index::Created> Index::create_bucket(std::string name, std::string owner, std::string region,
                                          Deadline deadline) {
  BucketCatalog& catalog = state_->catalog;
  BucketRecord record = catalog.new_record(std::move(owner), std::move(region));
  auto made = co_await catalog.create(name, record, limits::kBucketTakeover, deadline);
  if (made || made.error().code != Errc::busy) co_return made;
  (void)co_await roll_bucket_forward(name, deadline);
  co_return co_await catalog.create(std::move(name), std::move(record), limits::kBucketDeletingWait,
                                    deadline);
}

Task<std::vector<Bucket>> Index::list_buckets(std::string owner, Deadline deadline) {
  WalkRequest request;  // the system bucket: id 0, one partition
  request.bounded = false;
  RowWalk walk(state_->context, std::move(request));
  std::vector<Bucket> buckets;
  for (;;) {
    const auto row = walk.next();
    if (!row) {
      if (walk.done()) break;
      CO_CHECK(co_await walk.fill(deadline));
      continue;
    }
    if (row->kind != ValueKind::bucket) continue;
    CO_TRY(record, bucket_summary(row->summary));
    if (!owner.empty() && record.owner != owner) continue;
    Bucket bucket;
    bucket.name = row->key;
    bucket.record = std::move(record);
    buckets.push_back(std::move(bucket));
  }
  co_return buckets;
}

Task<> Index::delete_bucket(std::string name, Deadline deadline) {
  return penstock::delete_bucket(state_->context, state_->catalog, std::move(name), deadline);
}

Task<> Index::roll_bucket_forward(std::string name, Deadline deadline) {
  const Turn turn(state_->mutex, state_->rolled_forward, name);
  if (!turn.taken()) co_return Result<>{};  // one scan of the bucket at a time
  co_return co_await penstock::roll_bucket_forward(state_->context, state_->catalog,
                                                   std::move(name), deadline);
}

RegisterRef Index::object(const Bucket& bucket, std::string key) {
  return register_of(bucket, RowKind::object, std::move(key));
}

RegisterRef Index::upload(const Bucket& bucket, std::string key, std::string upload_id) {
  RegisterRef ref = register_of(bucket, RowKind::upload, std::move(key));
  ref.key.upload_id = std::move(upload_id);
  return ref;
}

FragmentOwner Index::owner(const Bucket& bucket, std::string key, std::string upload_id) {
  return {bucket.record.id, bucket.record.partitions, std::move(key), std::move(upload_id)};
}

RegisterRef Index::part(const Bucket& bucket, std::string key, std::string upload_id,
                        std::uint16_t number) {
  RegisterRef ref = register_of(bucket, RowKind::part, std::move(key));
  ref.key.upload_id = std::move(upload_id);
  ref.key.part = number;
  return ref;
}

Task<ListPage> Index::list(std::shared_ptr<const Bucket> bucket, ListRequest request,
                           Deadline deadline) {
  return list_page(state_->context, std::move(bucket), std::move(request), deadline);
}

Task<UploadPage> Index::list_uploads(std::shared_ptr<const Bucket> bucket,
                                     UploadListRequest request, Deadline deadline) {
  return list_upload_page(state_->context, std::move(bucket), std::move(request), deadline);
}

Task<std::vector<PartInfo>> Index::list_parts(std::shared_ptr<const Bucket> bucket, std::string key,
                                              std::string upload_id, Deadline deadline,
                                              PartSpan span) {
  // Owns the bucket while the list runs.
  co_return co_await list_upload_parts(state_->context, *bucket, std::move(key),
                                       std::move(upload_id), span, deadline);
}

}  // namespace penstock
