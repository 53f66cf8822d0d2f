#include "server/volume/rows/volume_meta.h"

#include "penstock/byte_codec.h"
#include "penstock/row_key.h"
#include "server/volume/disk/sealed_row.h"

namespace penstock {
namespace {

constexpr std::string_view kEpochPrefix = "epoch/";
constexpr std::string_view kFencePrefix = "fence/";
constexpr std::string_view kNotePrefix = "note/";

RowOp make_row_op(std::string_view name, std::string_view payload) {
  std::string key = meta_row_key(name);
  std::string value = seal_row(key, payload);
  return RowOp{std::move(key), std::move(value)};
}

std::string number_payload(std::uint64_t number) {
  std::string out;
  ByteWriter(out).number(number);
  return out;
}

template <std::unsigned_integral Number>
std::string name_with(std::string_view prefix, Number number) {
  std::string name(prefix);
  ByteWriter(name).number(number);
  return name;
}

// One row into its place. False: not understood.
bool apply_row(std::string_view name, std::string_view payload, VolumeMeta& meta) {
  ByteReader reader(payload);
  if (name == "identity") {
    meta.cluster = reader.id<ClusterId>();
    meta.volume = VolumeId{reader.number<std::uint64_t>()};
  } else if (name == "starts") {
    meta.starts = reader.number<std::uint64_t>();
  } else if (name == "ceiling") {
    meta.ceiling = reader.number<std::uint64_t>();
  } else if (name == "horizon") {
    meta.horizon = reader.number<std::uint64_t>();
  } else if (name == "map") {
    meta.map = payload;
    return true;
  } else if (name == "map/old") {
    meta.old_map = payload;
    return true;
  } else if (name.starts_with(kNotePrefix)) {
    meta.notes[std::string(name.substr(kNotePrefix.size()))] = payload;
    return true;
  } else if (name.starts_with(kEpochPrefix)) {
    ByteReader suffix(name.substr(kEpochPrefix.size()));
    GroupEpoch epoch;
    epoch.group = GroupId{suffix.number<std::uint32_t>()};
    epoch.epoch = Epoch{reader.number<std::uint64_t>()};
    const auto digest = reader.bytes(epoch.digest.size());
    if (!suffix.ok() || !suffix.at_end() || !reader.ok() || epoch.group.value >= kGroupsMax) {
      return false;
    }
    std::copy(digest.begin(), digest.end(), epoch.digest.begin());
    meta.epochs[epoch.group] = epoch;
  } else if (name.starts_with(kFencePrefix)) {
    ByteReader suffix(name.substr(kFencePrefix.size()));
    const BucketId bucket{suffix.number<std::uint64_t>()};
    meta.fences[bucket] = BucketNumber{reader.number<std::uint64_t>()};
    if (!suffix.ok() || !suffix.at_end()) return false;
  } else {
    return false;  // a newer version wrote it: to go on without it would be a guess
  }
  return reader.ok() && reader.at_end();
}

}  // namespace

Result<VolumeMeta> load_meta(Database& database) {
  VolumeMeta meta;
  const std::string prefix(1, static_cast<char>(RowKind::meta));
  const auto cursor = database.scan();
  for (cursor->seek(prefix); cursor->valid() && cursor->key().starts_with(prefix); cursor->next()) {
    const std::string_view name = cursor->key().substr(prefix.size());
    TRY(payload, unseal_row(cursor->key(), cursor->value()));
    if (!apply_row(name, payload, meta)) {
      return fail(Errc::corrupt, "meta row not understood: " + std::string(name));
    }
  }
  CHECK_OK(cursor->check());
  return meta;
}

RowOp identity_row(ClusterId cluster, VolumeId volume) {
  std::string payload;
  ByteWriter writer(payload);
  writer.id(cluster);
  writer.number(volume.value);
  return make_row_op("identity", payload);
}
RowOp starts_row(std::uint64_t starts) { return make_row_op("starts", number_payload(starts)); }
RowOp ceiling_row(std::uint64_t counter) { return make_row_op("ceiling", number_payload(counter)); }
RowOp horizon_row(std::uint64_t counter) { return make_row_op("horizon", number_payload(counter)); }
RowOp map_row(std::string_view json) { return make_row_op("map", json); }
RowOp old_map_row(std::string_view json) { return make_row_op("map/old", json); }
RowOp epoch_row(const GroupEpoch& epoch) {
  std::string payload = number_payload(epoch.epoch.value);
  payload.append(epoch.digest.begin(), epoch.digest.end());
  return make_row_op(name_with(kEpochPrefix, epoch.group.value), payload);
}
RowOp fence_row(BucketId bucket, BucketNumber number) {
  return make_row_op(name_with(kFencePrefix, bucket.value), number_payload(number.value));
}
RowOp note_row(std::string_view name, std::string_view bytes) {
  return make_row_op(std::string(kNotePrefix) + std::string(name), bytes);
}

}  // namespace penstock
