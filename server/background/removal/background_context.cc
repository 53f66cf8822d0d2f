#include "server/background/removal/background_context.h"

#include "server/membership/replica_set.h"

namespace penstock {
namespace {
RegisterRef ref_of(RowKind kind, const FragmentOwner& owner) {
  RegisterKey key;
  key.kind = kind;
  key.bucket = owner.bucket;
  key.key = owner.key;
  if (kind != RowKind::object) key.upload_id = owner.upload_id;
  return row_of(std::move(key), owner.partitions);
}
}  // namespace

std::vector<VolumeId> BackgroundContext::local_volumes() const {
  if (!local.empty()) return local;
  std::vector<VolumeId> all;
  for (const auto& client : membership.volumes()) all.push_back(client->id());
  return all;
}

RegisterRef row_of(RegisterKey key, std::uint32_t partitions) {
  RegisterRef ref;
  ref.key = std::move(key);
  ref.number = kPassesFences;
  ref.partitions = partitions;
  return ref;
}
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

bool is_older(const BackgroundContext& context, const Ballot& ballot, Duration age) {
  const WallTime changed{Duration(static_cast<Duration::rep>(ballot.counter))};
  return context.clock.wall() >= changed + age;
}

}  // namespace penstock
