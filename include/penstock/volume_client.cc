#include "penstock/volume_client.h"

#include <isa-l.h>
#include <xxhash.h>

#include "penstock/byte_codec.h"

namespace penstock {

std::string_view state_name(VolumeStatus::State state) {
  switch (state) {
    case VolumeStatus::State::open:
      return "open";
    case VolumeStatus::State::closed:
      return "closed";
    case VolumeStatus::State::missing:
      return "missing";
  }
  return "?";
}

std::uint64_t map_hash(std::string_view text) {
  return text.empty() ? 0 : XXH3_64bits(text.data(), text.size());
}

std::uint32_t fragment_block_crc(WriteId write_id, std::uint8_t slot, std::uint64_t block_number,
                                 ConstBytes block) {
  // The seed is the CRC register after (write-id, slot, block number); crc32_iscsi has no inversion
  // of its own.
  struct Seed {
    std::uint64_t high, low, number;
  };
  Seed seed{write_id.high, write_id.low, (block_number << 8) | slot};
  const auto start = crc32_iscsi(reinterpret_cast<unsigned char*>(&seed), sizeof seed, ~0u);
  auto* bytes = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(block.data()));
  return ~crc32_iscsi(bytes, static_cast<int>(block.size()), start);
}

std::uint32_t partition_of(BucketId bucket, std::string_view key, std::uint32_t partition_count) {
  return static_cast<std::uint32_t>(XXH3_64bits_withSeed(key.data(), key.size(), bucket.value) %
                                    partition_count);
}

GroupId group_of(BucketId bucket, std::uint32_t partition, std::uint32_t group_count) {
  if (bucket.value == 0) return GroupId{0};  // the system bucket is where every process can find it
  return GroupId{static_cast<std::uint32_t>(
      mix_hash(bucket.value + partition * 0x9e3779b97f4a7c15ull) % group_count)};
}

}  // namespace penstock
