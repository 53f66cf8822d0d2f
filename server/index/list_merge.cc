#include "server/index/list_merge.h"

#include <algorithm>

#include "penstock/planted.h"
#include "server/records/key_range.h"

namespace penstock {
namespace {
// True if a reply that covers keys before `covered_to` (empty = all) speaks for `key`.
bool covers(const std::string& covered_to, std::string_view key) {
  return covered_to.empty() || key < covered_to;
}
// The same for every key before `end` (empty = all).
bool covers_to(const std::string& covered_to, const std::string& end) {
  return covered_to.empty() || (!end.empty() && end <= covered_to);
}
}  // namespace

ListMerge::ListMerge(MergeInput input) : input_(std::move(input)) {
  cursors_.resize(input_.replies.size());
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    if (!input_.replies[i]) continue;
    cursors_[i].reply = std::move(*input_.replies[i]);
    cursors_[i].answered = true;
    rows_looked_at_ = std::max(rows_looked_at_, cursors_[i].reply.rows.size());
  }
  input_.replies.clear();
  limit_ = covered_by_quorum();
}

std::string ListMerge::covered_by_quorum() const {
  std::string best = input_.start;
  for (const Cursor& candidate : cursors_) {
    if (!candidate.answered) continue;
    const std::string& to = candidate.reply.covered_to;
    IndexMask covering;
    for (std::size_t i = 0; i < cursors_.size(); ++i) {
      if (cursors_[i].answered && covers_to(cursors_[i].reply.covered_to, to)) covering.add(i);
    }
    if (!input_.quorum.reached(covering)) continue;
    if (to.empty()) return {};
    best = std::max(best, to);
  }
  return best;
}

IndexMask ListMerge::speaking_at(std::string_view key) const {
  IndexMask mask;
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    const Cursor& cursor = cursors_[i];
    const bool speaks = covers(cursor.reply.covered_to, key) || !holds(Rule::list_coverage);
    if (cursor.answered && !cursor.silent && speaks) mask.add(i);
  }
  return mask;
}

IndexMask ListMerge::cursors_at_smallest(std::string_view& key) const {
  IndexMask mask;
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    if (cursors_[i].at_end()) continue;
    const std::string_view mine = cursors_[i].current().key;
    const int order = mask.empty() ? -1 : mine.compare(key);
    if (order > 0) continue;
    if (order < 0) {
      key = mine;
      mask = {};
    }
    mask.add(i);
  }
  return mask;
}

// Leaves the current common prefix. False: some of its keys behind the last one are not decided,
// because too few replicas speak of them.
bool ListMerge::leave_prefix() {
  if (prefix_.empty()) return true;
  if (!prefix_live_) {
    const std::string end = prefix_end(prefix_);
    const bool last = limit_.empty() || (!end.empty() && end <= limit_);
    const std::string& upto = last ? end : limit_;
    IndexMask speaking;
    for (std::size_t i = 0; i < cursors_.size(); ++i) {
      const Cursor& cursor = cursors_[i];
      const bool speaks = cursor.answered && !cursor.silent;
      if (speaks && covers_to(cursor.reply.covered_to, upto)) speaking.add(i);
    }
    if (!input_.quorum.reached(speaking)) return false;
  }
  prefix_.clear();
  prefix_live_ = false;
  for (Cursor& cursor : cursors_) cursor.silent = false;
  return true;
}

bool ListMerge::enter_prefix(std::string_view prefix) {
  if (prefix == prefix_) return true;
  if (!leave_prefix()) return false;
  prefix_ = prefix;
  return true;
}

// Steps over the rest of the current common prefix: one live key stands for all of it.
void ListMerge::skip_prefix() {
  prefix_live_ = true;
  floor_ = prefix_end(prefix_);
  if (floor_.empty()) limit_.clear();  // nothing can follow this prefix
  for (Cursor& cursor : cursors_) {
    while (!cursor.at_end() && cursor.current().key.starts_with(prefix_)) ++cursor.row;
  }
}

ListMerge::Said ListMerge::listen(IndexMask at, std::string_view key) const {
  Said said;
  said.speaking = speaking_at(key);
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    if (!said.speaking.has(i)) continue;
    if (!at.has(i)) {
      said.dead.add(i);
      continue;
    }
    const ScanRow& row = cursors_[i].current();
    if (row.unreadable && holds(Rule::list_unreadable)) {
      said.speaking.remove(i);
      continue;
    }
    said.holding.add(i);
    if (!is_live(row.kind)) said.dead.add(i);
  }
  return said;
}

std::optional<int> ListMerge::decided(const Said& said) const {
  if (input_.quorum.reached(said.speaking - said.holding)) return -1;
  IndexMask left = said.holding;
  while (!left.empty()) {
    const std::size_t first = left.first();
    const Ballot& ballot = cursors_[first].current().ballot;
    IndexMask same = IndexMask::of(first);
    for (std::size_t i = first + 1; i < cursors_.size(); ++i) {
      if (left.has(i) && cursors_[i].current().ballot == ballot) same.add(i);
    }
    if (input_.quorum.reached(same) || !holds(Rule::list_majority)) {
      const bool summary = same.has(input_.summary_replica);
      return static_cast<int>(summary ? input_.summary_replica : first);
    }
    left -= same;
  }
  return std::nullopt;
}

// Not even if all replicas have something dead is the key gone: they were asked one after another.
// A value that was settled anew meanwhile may have come to two replicas, to the one before and to
// the other after it was asked, over a tombstone that was never chosen.
bool ListMerge::is_gone(const Said& said) const {
  const bool agree = said.dead == said.speaking && input_.quorum.reached(said.dead);
  return agree && !holds(Rule::list_dead);
}

// Decides the key at the cursors `at` and moves them on. `end` stands for "not live".
ListMerge::Step ListMerge::consume(IndexMask at, const Said& said) {
  Step step;
  const auto chosen = decided(said);
  const bool gone = is_gone(said);
  ScanRow* winner = nullptr;
  if (chosen && *chosen >= 0) {
    Cursor& cursor = cursors_[static_cast<std::size_t>(*chosen)];
    winner = &cursor.reply.rows[cursor.row];
  }
  if (winner != nullptr && is_live(winner->kind)) {
    step.what = Step::What::live;
    step.has_summary = static_cast<std::size_t>(*chosen) == input_.summary_replica;
  } else if (!chosen && !gone && holds(Rule::list_undecided)) {
    step.what = Step::What::ask;
  }
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    if (!at.has(i)) continue;
    Cursor& cursor = cursors_[i];
    const ScanRow& row = cursor.current();
    if (!prefix_.empty() && !row.unreadable && is_live(row.kind)) {
      cursor.silent = holds(Rule::list_witness);
    }
    ++cursor.row;
  }
  if (step.what == Step::What::live) step.row = std::move(*winner);
  return step;
}

ListMerge::Step ListMerge::finish(std::string resume) {
  resume_ = std::move(resume);
  return {};
}

ListMerge::Step ListMerge::next() {
  for (;;) {
    std::string_view key;
    const IndexMask at = cursors_at_smallest(key);
    if (at.empty() || !covers(limit_, key)) {
      if (!leave_prefix()) return finish(key_after(last_key_));
      if (limit_.empty() || !holds(Rule::list_resume)) return finish({});
      // A live prefix is decided to its end, though the scans may have stopped inside it.
      return finish(std::max(limit_, floor_));
    }
    if (!enter_prefix(common_prefix(key, input_.prefix_bytes, input_.delimiter))) {
      return finish(key_after(last_key_));
    }
    if (!input_.quorum.reached(speaking_at(key))) return finish(key_after(last_key_));
    const Said said = listen(at, key);
    last_key_ = key;
    Step step = consume(at, said);
    if (step.what == Step::What::end) continue;
    if (step.what == Step::What::ask) step.row.key = last_key_;
    if (step.what == Step::What::live && !prefix_.empty()) skip_prefix();
    return step;
  }
}

void ListMerge::answer(bool live) {
  if (live && !prefix_.empty()) skip_prefix();
}

}  // namespace penstock
