// What background work asks of one volume: which hints, registers and fragments of any bucket it
// holds, and who owns them. Values; the calls are VolumeClient's.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/register_value.h"
#include "penstock/types.h"

namespace penstock {

// The owner of a fragment's blob: the object's key and, for parts and manifest pages, the upload.
// Fixed when the fragment is written: a part that becomes the object's stays under the same key.
// An empty key: unknown; such a fragment is never taken for an orphan.
struct FragmentOwner {
  BucketId bucket;
  std::uint32_t partitions = 1;  // of the bucket, which may be gone when somebody asks
  std::string key;
  std::string upload_id;
  auto operator<=>(const FragmentOwner&) const = default;
};

struct FragmentEntry {
  FragmentId id;
  std::uint64_t data_bytes = 0;
  bool pinned = false;  // R11: may not be removed as an orphan yet
  Duration unpinned{};  // for how long it has had no lease
  FragmentOwner owner{};
};

// When a fragment may be removed. On the wire, never renumber.
enum class RemovalRule : std::uint8_t {
  always = 0,    // its writer takes it back
  unread = 1,    // no reader's pin: what a hint names
  unpinned = 2,  // neither a lease nor a reader's pin: an orphan (R11)
};

// A removal hint as a volume stores it: one row per due time and blob.
struct HintName {
  WallTime due;
  WriteId write_id;
  auto operator<=>(const HintName&) const = default;
};
struct StoredHint {
  HintName name;
  Ballot ballot;  // of the accept that it was written beside
  BucketId bucket;
  std::uint32_t partitions = 1;
  std::string key;        // of the object
  std::string upload_id;  // empty, or the upload that must be terminal first
  std::string locations;
  // Since its volume committed it, or since the volume's start, by that volume's own clock.
  Duration age{};
};
struct HintListRequest {
  std::optional<HintName> after;
  WallTime due_until;
  std::uint32_t rows_max = 1000;
  bool count = false;  // count all rows, due or not: a look at each name
};
struct HintListReply {
  std::vector<StoredHint> hints;  // by due time, limits::kReplyBytesMax at most; none: no more
  std::uint64_t count = 0;
};

// Rows of one kind of register over all buckets, in the order of their row keys.
struct RegisterListRequest {
  RowKind kind = RowKind::upload;  // object, upload or part
  std::optional<RegisterKey> after;
  std::optional<ValueKind> only;  // rows of this kind of value
  std::uint32_t rows_max = 1000;
};
struct RegisterEntry {
  RegisterKey key;
  std::uint32_t partitions = 1;
  Ballot ballot;
  ValueKind kind = ValueKind::absent;
  std::string summary;
};
struct RegisterListReply {
  std::vector<RegisterEntry> rows;  // of at most limits::kReplyBytesMax and a row
  // Where the next call goes on; empty: nothing is left.
  std::optional<RegisterKey> covered;
  // Rows that cannot be read were left out: of their registers nothing is said.
  bool damaged = false;
};

// What a group's epoch stands for. The digest (SHA-256) is of the group's member lists, so that a
// change of the map which leaves a group alone keeps both its epoch and its digest.
struct GroupEpoch {
  GroupId group;
  Epoch epoch;
  std::array<std::uint8_t, 32> digest{};
  // What rounds carry of it.
  std::uint64_t short_digest() const {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < sizeof number; ++i) {
      number |= static_cast<std::uint64_t>(digest[i]) << (8 * i);
    }
    return number;
  }
};

// What a volume that joins a group must know before it answers: the highest among a majority of the
// old list (R12).
struct JoinState {
  std::uint64_t horizon = 0;                                // H (R9)
  std::vector<std::pair<BucketId, BucketNumber>> fences{};  // of deleted buckets
};

struct AdoptRequest {
  SharedBytes map;  // its canonical text
  std::vector<GroupEpoch> epochs;
  JoinState join;
};

}  // namespace penstock
