#include "server/membership/register_groups.h"

namespace penstock {

std::shared_ptr<const RegisterGroups::Table> RegisterGroups::table() {
  Part& part = parts_.mine();
  const std::lock_guard lock(part.mutex);
  if (part.table != nullptr && membership_.is_current(*part.table->map)) return part.table;
  auto table = std::make_shared<Table>();
  table->map = membership_.map();
  for (std::uint32_t g = 0; g < table->map->groups.size(); ++g) {
    RegisterGroup& group = table->groups.emplace_back();
    group.id = GroupId{g};
    auto set = replicas_of(*table->map, group.id);
    if (!set) continue;  // a group without replicas has no majority: its registers are unavailable
    group.set = std::move(*set);
    for (const VolumeId id : group.set.volumes) group.clients.push_back(membership_.volume(id));
  }
  part.table = table;
  return table;
}

Result<std::shared_ptr<const RegisterGroup>> RegisterGroups::find(BucketId bucket,
                                                                  std::string_view key,
                                                                  std::uint32_t partitions) {
  const auto now = table();
  if (now->groups.empty() || partitions == 0) {
    return fail(Errc::unavailable, "the map has no register groups");
  }
  const auto group_count = static_cast<std::uint32_t>(now->groups.size());
  const auto partition = partitions == 1 ? 0 : partition_of(bucket, key, partitions);
  const GroupId id = group_of(bucket, partition, group_count);
  return std::shared_ptr<const RegisterGroup>(now, &now->groups[id.value]);
}

}  // namespace penstock
