// The live rows of a range of one bucket, in byte order of their row keys, over all its groups:
// every row handed out was chosen by a majority or read from its register.
// Thread-safety: one coroutine at a time.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/limits.h"
#include "server/index/group_scan.h"
#include "server/proposer/proposer.h"

namespace penstock {

// What lists share. Ownership: borrows all.
struct ListContext {
  Membership& membership;
  Proposer& proposer;
  Clock& clock;
};

struct WalkRequest {
  BucketId bucket;
  BucketNumber number;
  std::uint32_t partitions = 1;
  RowKind kind = RowKind::object;
  std::string prefix;
  std::string delimiter;           // object rows: one live row stands for each common prefix
  std::string start;               // inclusive
  std::string end;                 // exclusive; empty = to the end of the bucket
  std::string one_key;             // non-empty: only the partition of this object key
  std::size_t rows_wanted = 1000;  // about so many rows will be taken
  std::size_t batch_max = limits::kScanBatchMax;  // rows asked of one replica at once
  bool payloads = false;                          // whole encoded values
  bool bounded = true;                            // stop after limits::kScanRowsMax rows: see cut()
  // The deleter of a bucket: volumes sync this fence before they scan, and keys on which replicas
  // do not agree are settled by write-backs that pass it.
  BucketNumber fence;
};

struct LiveRow {
  std::string key;  // row key suffix
  ValueKind kind = ValueKind::absent;
  std::string summary;  // or the encoded value, if payloads
};

class RowWalk {
 public:
  RowWalk(ListContext context, WalkRequest request);

  // The next row if it is known; else fill() and ask again, unless done() or cut().
  std::optional<LiveRow> next();
  // Scans and reads what is needed for the next row. Errors: unavailable; stale_bucket; timeout;
  // corrupt.
  Task<> fill(Deadline deadline);
  bool done() const;  // no row is left
  // limits::kScanRowsMax rows were looked at; everything up to last_key() was handed out.
  bool cut() const;
  std::string last_key() const;

 private:
  struct Group {
    GroupShare share;
    std::vector<LiveRow> rows;
    std::size_t taken = 0;
    std::string position;  // all keys before it are decided
    std::string last_key;  // the last of them that was looked at
    bool exhausted = false;
    std::size_t summary_turn = 0;
    std::uint32_t batch = 0;
    bool wide = false;  // too many keys were undecided between the replicas of a mere majority
    bool empty() const { return taken >= rows.size(); }
  };
  void set_up();
  Task<> fill_once(Deadline deadline);
  GroupScan scan_of(const Group& group) const;
  // What taking the steps of one scan has met.
  struct Trouble {
    std::size_t misses = 0;     // summaries that the replica asked for them does not have
    std::size_t undecided = 0;  // keys whose register had to be read
  };
  Task<> absorb(Group& group, MergeInput input, Deadline deadline);
  Task<> take_step(Group& group, ListMerge& merge, ListMerge::Step step, Trouble& trouble,
                   Deadline deadline);
  Task<Snapshot> read_row(std::string row_key, Deadline deadline);

  ListContext context_;
  WalkRequest request_;
  std::vector<Group> groups_;
  bool set_up_ = false;
  std::size_t rows_looked_at_ = 0;
};

}  // namespace penstock
