#include "server/cluster/index.h"

#include "server/cluster/bucket_delete.h"

namespace penstock {
namespace {
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
};

Index::Index(Membership& membership, Proposer& proposer, Clock& clock, Random& random)
    : state_(new State{{membership, proposer, clock}, {membership, proposer, clock, random}}) {}
Index::~Index() = default;

Task<std::shared_ptr<const Bucket>> Index::bucket(std::string name, Deadline deadline) {
  return state_->catalog.find(std::move(name), deadline);
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
  return state_->catalog.create(std::move(name), std::move(owner), std::move(region), deadline);
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

Task<std::vector<PartInfo>> Index::list_parts(std::shared_ptr<const Bucket> bucket,
                                              std::string key, std::string upload_id,
                                              Deadline deadline) {
  // Owns the bucket while the list runs.
  co_return co_await list_upload_parts(state_->context, *bucket, std::move(key),
                                       std::move(upload_id), deadline);
}

}  // namespace penstock
