// Columns of a stripe that a reader has already, before it comes to their units: they were read, or
// rebuilt at the same time, to rebuild an earlier unit. Without them each missing unit of a stripe
// would be k reads of its own. They are of two stripes at most, and their memory is leased.
// Thread-safety: one executor.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "penstock/memory_budget.h"
#include "penstock/volume_client.h"

namespace penstock {

class KeptColumns {
 public:
  struct Column {
    FragmentId fragment;
    std::uint64_t offset = 0;  // in the fragment
    Piece piece;
  };

  // `lease`: of all their bytes; given back piece by piece.
  void keep(std::vector<Column> columns, MemoryBudget::Lease lease) {
    if (columns.empty()) return;
    groups_.push_back({std::move(columns), std::move(lease)});
  }

  // Gives all of it up.
  void clear() { groups_.clear(); }

  // The bytes [offset, offset + length) of `fragment`, once. Forgets those of other blobs and of
  // stripes before the one that begins at `stripe_offset` of each fragment: readers do not go back.
  std::optional<Piece> take(const FragmentId& fragment, std::uint64_t stripe_offset,
                            std::uint64_t offset, std::uint64_t length) {
    std::optional<Piece> found;
    for (Group& group : groups_) {
      std::erase_if(group.columns, [&](Column& column) {
        const bool same = column.fragment == fragment && column.offset == offset;
        if (same && column.piece.length == length) found = std::move(column.piece);
        return same || column.fragment.write_id != fragment.write_id ||
               column.offset < stripe_offset;
      });
      group.lease.shrink_to(bytes_of(group));
    }
    std::erase_if(groups_, [](const Group& group) { return group.columns.empty(); });
    return found;
  }

 private:
  struct Group {
    std::vector<Column> columns;
    MemoryBudget::Lease lease;
  };
  static std::size_t bytes_of(const Group& group) {
    std::size_t bytes = 0;
    for (const Column& column : group.columns) bytes += column.piece.length;
    return bytes;
  }

  std::vector<Group> groups_;
};

}  // namespace penstock
