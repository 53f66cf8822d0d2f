// What the replicas of one group say of a range of keys -> what is true of each key: "LIST" in
// server/proposer/README.md. Pure: no I/O; a key on which the replicas do not agree is handed out
// as a question, and the caller answers it.
//
// Per key: a majority at one ballot decides (no row = ballot zero); else the caller must ask the
// register. "A majority is dead", or even all replicas, decides nothing: tombstones of two ballots
// need not be chosen, neither of them.
// A replica says nothing of a key outside the range that its reply covers, of a row that it cannot
// read, and, with a delimiter, of what lies behind its live witness of a common prefix.
// Cost: one comparison per row of each replica; rows are moved, never copied.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/volume_client.h"
#include "server/membership/replica_set.h"

namespace penstock {

struct MergeInput {
  Quorum quorum;
  // By replica, as in ReplicaSet::volumes; empty = no answer. Pre: those that answered reach it.
  std::vector<std::optional<ScanReply>> replies;
  std::size_t summary_replica = 0;  // whose rows carry summaries (or payloads)
  std::string start;                // where the scan began, inclusive
  std::size_t prefix_bytes = 0;     // length of the list's prefix
  std::string delimiter;
};

class ListMerge {
 public:
  explicit ListMerge(MergeInput input);

  struct Step {
    enum class What : std::uint8_t {
      live,  // `row` is the chosen value of its key
      ask,   // the replicas do not agree on row.key: read its register, then answer()
      end,   // nothing more in these replies: see resume()
    };
    What what = What::end;
    ScanRow row;               // ask: only the key
    bool has_summary = false;  // live: row.summary is the chosen value's
  };
  // With a delimiter only the first live key of each common prefix is handed out.
  Step next();
  // Pre: the last step was `ask`. Is that key live?
  void answer(bool live);

  // After the end: where the next scan has to begin; empty = the range is done. All keys before it
  // are decided.
  const std::string& resume() const { return resume_; }
  // After the end: the last key that was decided; empty if there was none.
  const std::string& last_key() const { return last_key_; }
  // The longest reply's rows.
  std::size_t rows_looked_at() const { return rows_looked_at_; }

 private:
  struct Cursor {
    ScanReply reply;
    std::size_t row = 0;
    bool answered = false;
    bool silent = false;  // it has shown its witness of the current common prefix
    bool at_end() const { return row >= reply.rows.size(); }
    const ScanRow& current() const { return reply.rows[row]; }
  };
  // What is said of one key.
  struct Said {
    IndexMask speaking;  // replicas that say something of it
    IndexMask holding;   // ... and have a row
    IndexMask dead;      // ... absent or tombstone
  };

  std::string covered_by_quorum() const;
  IndexMask speaking_at(std::string_view key) const;
  IndexMask cursors_at_smallest(std::string_view& key) const;
  bool enter_prefix(std::string_view prefix);
  bool leave_prefix();
  void skip_prefix();
  Said listen(IndexMask at, std::string_view key) const;
  // The replica whose row decides; nullopt: no majority at one ballot. An absent majority: -1.
  std::optional<int> decided(const Said& said) const;
  bool is_gone(const Said& said) const;
  Step consume(IndexMask at, const Said& said);
  Step finish(std::string resume);

  MergeInput input_;
  std::vector<Cursor> cursors_;
  std::string limit_;   // a majority covers all keys before it; empty = to the end
  std::string prefix_;  // common prefix of the last key, empty = it stands for itself
  bool prefix_live_ = false;
  std::string floor_;  // everything before it is decided: the end of a live common prefix
  std::string last_key_;
  std::string resume_;
  std::size_t rows_looked_at_ = 0;
};

}  // namespace penstock
