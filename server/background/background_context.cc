#include "server/background/background_context.h"

#include "server/cluster/replica_set.h"

namespace penstock {
namespace {
RegisterRef ref_of(RowKind kind, const FragmentOwner& owner) {
  RegisterRef ref;
  ref.key.kind = kind;
  ref.key.bucket = owner.bucket;
  ref.key.key = owner.key;
  if (kind != RowKind::object) ref.key.upload_id = owner.upload_id;
  ref.number = kPassesFences;
  ref.partitions = owner.partitions;
  return ref;
}
}  // namespace

RegisterRef object_of(const FragmentOwner& owner) { return ref_of(RowKind::object, owner); }
RegisterRef upload_of(const FragmentOwner& owner) { return ref_of(RowKind::upload, owner); }

std::optional<std::size_t> rank_in_group(const BackgroundContext& context, VolumeId volume,
                                         BucketId bucket, std::uint32_t partitions,
                                         std::string_view key) {
  const auto map = context.membership.map();
  const auto replicas = replicas_of(*map, group_of_key(*map, bucket, partitions, key).group);
  if (!replicas) return std::nullopt;
  std::size_t rank = 0;
  for (const VolumeId replica : replicas->volumes) {
    if (replica == volume) return rank;
    if (!context.membership.suspect(replica)) ++rank;
  }
  return std::nullopt;
}

}  // namespace penstock
