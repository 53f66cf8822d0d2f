#include "server/index/row_walk.h"

#include <algorithm>

#include "penstock/fan_out.h"
#include "penstock/planted.h"
#include "penstock/row_key.h"
#include "server/records/key_range.h"

namespace penstock {
namespace {
// After so many summaries that one replica lacks, another one is asked for them.
constexpr std::size_t kMissesMax = 16;
constexpr std::uint32_t kRowsSpare = 32;

// More than so many keys on which a mere majority does not agree: all replicas are asked.
constexpr std::size_t kUndecidedMax = 16;

// Some rows are dead; of several groups, a quarter more than a fair share, since keys spread
// unevenly over partitions.
std::uint32_t first_batch(const WalkRequest& request, std::size_t groups) {
  const std::size_t share = request.rows_wanted / groups;
  const std::size_t rows = share + (groups > 1 ? share / 4 : 0) + kRowsSpare;
  return static_cast<std::uint32_t>(std::min(rows, request.batch_max));
}
}  // namespace

RowWalk::RowWalk(ListContext context, WalkRequest request)
    : context_(context), request_(std::move(request)) {}

void RowWalk::set_up() {
  set_up_ = true;
  const auto map = context_.membership.map();
  std::vector<GroupShare> shares;
  if (request_.one_key.empty()) {
    shares = groups_of_bucket(*map, request_.bucket, request_.partitions);
  } else {
    shares.push_back(group_of_key(*map, request_.bucket, request_.partitions, request_.one_key));
  }
  for (const GroupShare& share : shares) {
    Group group;
    group.share = share;
    group.position = request_.start;
    group.batch = first_batch(request_, shares.size());
    groups_.push_back(std::move(group));
  }
}

bool RowWalk::done() const {
  return set_up_ && std::all_of(groups_.begin(), groups_.end(), [](const Group& group) {
           return group.exhausted && group.empty();
         });
}

bool RowWalk::cut() const {
  return request_.bounded && rows_looked_at_ > limits::kScanRowsMax && !last_key().empty();
}

// The smallest of the last keys of the groups that would have to be scanned further.
std::string RowWalk::last_key() const {
  const Group* behind = nullptr;
  for (const Group& group : groups_) {
    if (group.exhausted || !group.empty()) continue;
    if (behind == nullptr || group.position < behind->position) behind = &group;
  }
  return behind == nullptr ? std::string() : behind->last_key;
}

std::optional<LiveRow> RowWalk::next() {
  if (!set_up_) return std::nullopt;
  Group* best = nullptr;
  const std::string* barrier = nullptr;  // a group without rows may still have keys from here on
  for (Group& group : groups_) {
    if (!group.empty()) {
      if (best == nullptr || group.rows[group.taken].key < best->rows[best->taken].key) {
        best = &group;
      }
    } else if (!group.exhausted && (barrier == nullptr || group.position < *barrier)) {
      barrier = &group.position;
    }
  }
  if (best == nullptr) return std::nullopt;
  if (barrier != nullptr && best->rows[best->taken].key >= *barrier) return std::nullopt;
  return std::move(best->rows[best->taken++]);
}

GroupScan RowWalk::scan_of(const Group& group) const {
  GroupScan scan;
  scan.share = group.share;
  scan.summary_turn = group.summary_turn;
  scan.wide = group.wide;
  ScanRequest& request = scan.request;
  request.bucket = request_.bucket;
  request.kind = request_.kind;
  request.round.bucket_number = request_.number;
  request.round.pass_fence = request_.fence.value != 0;
  request.partition_count = request_.partitions;
  request.start = group.position;
  request.end = request_.end;
  request.prefix = request_.prefix;
  request.delimiter = request_.delimiter;
  request.rows_max = group.batch;
  request.payloads = request_.payloads;
  request.fence = request_.fence;
  return scan;
}

// R12: a list keeps no epoch over several scans; each scan is of one epoch. One that was refused as
// stale is begun again with the newer map.
Task<> RowWalk::fill(Deadline deadline) {
  if (!set_up_) set_up();
  while (true) {
    auto filled = co_await fill_once(deadline);
    if (filled || filled.error().code != Errc::stale_epoch || context_.clock.boot() >= deadline) {
      co_return filled;
    }
    co_await context_.proposer.learn_map();
  }
}

Task<> RowWalk::fill_once(Deadline deadline) {
  const auto executor = co_await boost::asio::this_coro::executor;
  std::vector<std::size_t> scanned;
  FanOut<MergeInput> scans(groups_.size());
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].exhausted || !groups_[i].empty()) continue;
    scanned.push_back(i);
    scans.start_at(executor, i,
                   scan_group(context_.membership, context_.clock, scan_of(groups_[i]), deadline));
  }
  co_await scans.wait_all();
  auto answers = scans.take();
  for (const std::size_t i : scanned) {
    if (!*answers[i]) co_return answers[i]->error();
    MergeInput input = std::move(*answers[i]).value();
    CO_CHECK(co_await absorb(groups_[i], std::move(input), deadline));
  }
  co_return Result<>{};
}

// Turns the replies of one scan into rows of the group.
Task<> RowWalk::absorb(Group& group, MergeInput input, Deadline deadline) {
  group.rows.clear();
  group.taken = 0;
  ListMerge merge(std::move(input));
  Trouble trouble;
  for (;;) {
    ListMerge::Step step = merge.next();
    if (step.what == ListMerge::Step::What::end) break;
    if (step.what == ListMerge::Step::What::ask && !group.wide &&
        ++trouble.undecided > kUndecidedMax) {
      // The rest of the range is better asked of all: from this key on nothing was decided.
      group.wide = true;
      rows_looked_at_ += group.rows.size();
      if (!group.rows.empty()) group.last_key = group.rows.back().key;
      group.position = std::move(step.row.key);
      co_return Result<>{};
    }
    CO_CHECK(co_await take_step(group, merge, std::move(step), trouble, deadline));
  }
  if (!merge.last_key().empty()) group.last_key = merge.last_key();
  rows_looked_at_ += merge.rows_looked_at();
  group.exhausted = merge.resume().empty();
  if (!group.exhausted && merge.resume() <= group.position) {
    co_return fail(Errc::unavailable, "the replicas of a register group cover no common range");
  }
  group.position = merge.resume();
  if (trouble.misses > kMissesMax) ++group.summary_turn;
  const std::size_t doubled = std::size_t{group.batch} * 2;
  group.batch = static_cast<std::uint32_t>(std::min(doubled, request_.batch_max));
  co_return Result<>{};
}

Task<> RowWalk::take_step(Group& group, ListMerge& merge, ListMerge::Step step, Trouble& trouble,
                          Deadline deadline) {
  const bool ask = step.what == ListMerge::Step::What::ask;
  const bool witness =
      !common_prefix(step.row.key, request_.prefix.size(), request_.delimiter).empty();
  if (!ask && (step.has_summary || witness)) {  // of a common prefix only its name is shown
    group.rows.push_back({std::move(step.row.key), step.row.kind, std::move(step.row.summary)});
    co_return Result<>{};
  }
  if (!ask) ++trouble.misses;
  CO_TRY(now, co_await read_row(step.row.key, deadline));
  if (ask) merge.answer(now.live());
  if (!now.live()) co_return Result<>{};
  LiveRow row;
  if (request_.payloads) {
    CO_TRY(key, register_of_suffix(request_.kind, request_.bucket, step.row.key));
    row.summary = encode(key, *now.value);
  } else {
    row.summary = now.value->summary;
  }
  row.key = std::move(step.row.key);
  row.kind = now.kind();
  group.rows.push_back(std::move(row));
  co_return Result<>{};
}

Task<Snapshot> RowWalk::read_row(std::string row_key, Deadline deadline) {
  RegisterRef ref;
  CO_TRY(key, register_of_suffix(request_.kind, request_.bucket, row_key));
  ref.key = std::move(key);
  ref.number = request_.number;
  ref.partitions = request_.partitions;
  if (request_.fence.value != 0) {
    if (!holds(Rule::fenced_settle)) {
      co_return co_await context_.proposer.read_background(ref, ReadWant::value, deadline);
    }
    // An R6 answer may come from a volume that still has an accept in front of the fence.
    co_return co_await context_.proposer.write_back(ref, WriteBack::if_needed, true, deadline);
  }
  co_return co_await context_.proposer.read(ref, ReadWant::value, deadline);
}

}  // namespace penstock
