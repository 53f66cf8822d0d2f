// The `m` rows of a volume: what it must still know after a restart besides registers and extents.
// Names and payloads are on disk, never change:
//   identity  cluster id, volume id       starts    u64, +1 at each open (R13)
//   ceiling   u64 (R4)                    horizon   u64 (R9)
//   map       the cluster map, JSON       note/…    what this volume keeps for the node
//   map/old   the map before that one
//   epoch/G   u64, digest 32 (R12)        fence/B   u64, per bucket id
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "penstock/result.h"
#include "penstock/types.h"
#include "penstock/volume_upkeep.h"
#include "server/volume/rows/database.h"
#include "server/volume/rows/row_op.h"

namespace penstock {

struct VolumeMeta {
  ClusterId cluster;
  VolumeId volume;
  std::uint64_t starts = 0;
  std::uint64_t ceiling = 0;
  std::uint64_t horizon = 0;
  std::string map;
  std::string old_map;  // empty: there was none before
  std::map<GroupId, GroupEpoch> epochs;
  std::unordered_map<BucketId, BucketNumber> fences;
  std::map<std::string, std::string> notes;
};

inline constexpr std::size_t kGroupsMax = 65'536;
inline constexpr std::size_t kNotesMax = 65'536;  // a few per other volume

// Blocks. Errors: corrupt - any of these rows is unreadable: without them no answer can be trusted.
Result<VolumeMeta> load_meta(Database& database);

RowOp identity_row(ClusterId cluster, VolumeId volume);
RowOp starts_row(std::uint64_t starts);
RowOp ceiling_row(std::uint64_t counter);
RowOp horizon_row(std::uint64_t counter);
RowOp map_row(std::string_view json);
RowOp old_map_row(std::string_view json);
RowOp epoch_row(const GroupEpoch& epoch);
RowOp fence_row(BucketId bucket, BucketNumber number);
RowOp note_row(std::string_view name, std::string_view bytes);

}  // namespace penstock
