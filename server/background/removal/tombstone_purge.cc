#include "server/background/removal/tombstone_purge.h"

#include <algorithm>

#include "penstock/fan_out.h"
#include "server/membership/replica_set.h"

namespace penstock {
namespace {

constexpr std::size_t kRoundsSideBySide = 16;  // their syncs are shared
constexpr RowKind kRegisterKinds[] = {RowKind::object, RowKind::upload, RowKind::part};

}  // namespace

Task<> TombstonePurge::pass() {
  Progress progress(context_, "tombstones", marked_.size());
  CO_CHECK(co_await drop_due(progress));
  std::uint64_t waiting = 0;
  tried_.clear();
  ++passes_;
  Result<> whole;
  const std::vector<VolumeId> volumes = context_.local_volumes();
  std::erase_if(noted_, [&](const auto& entry) {
    return std::find(volumes.begin(), volumes.end(), entry.first.first) == volumes.end();
  });
  for (const VolumeId volume : volumes) {
    bool seen = true;
    for (const RowKind kind : kRegisterKinds) {
      auto looked = co_await mark_volume(volume, kind, progress, waiting);
      seen = seen && looked;
      if (!looked) whole = std::move(looked);
      if (context_.stops()) co_return Result<>{};
    }
    if (seen) forget_what_went(volume);
  }
  context_.board->change(
      [waiting](BackgroundStatus& status) { status.tombstones_waiting = waiting; });
  co_return whole;
}

Task<> TombstonePurge::drop_due(Progress& progress) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const BootTime ripe = context_.clock.boot() - context_.options.tombstone_wait;
  Keys due;
  for (const auto& [key, marked] : marked_) {
    if (marked.since <= ripe) due.push_back(key);
  }
  for (std::size_t first = 0; first < due.size(); first += kRoundsSideBySide) {
    const std::size_t last = std::min(first + kRoundsSideBySide, due.size());
    FanOut<void> drops;
    for (std::size_t i = first; i < last; ++i) {
      if (!co_await pace_.turn()) break;
      drops.start(executor, drop(std::move(due[i])));
    }
    co_await drops.wait_all();
    progress.step(last - first);
    if (context_.stops()) co_return Result<>{};
  }
  co_return Result<>{};
}

Task<> TombstonePurge::drop(RegisterKey key) {
  const auto found = marked_.find(key);
  if (found == marked_.end()) co_return Result<>{};
  const TombstoneMark mark = found->second.mark;
  const RegisterRef ref = row_of(std::move(key), found->second.partitions);
  // What fails stays marked: the same drop is asked again in the next pass, never a new round.
  CO_TRY(end, co_await context_.proposer.drop_tombstone(ref, mark, context_.step_deadline()));
  if (end == DropEnd::ask_again) co_return Result<>{};
  marked_.erase(ref.key);
  if (end == DropEnd::void_mark) co_return Result<>{};  // found anew, if it is still one
  context_.board->change([](BackgroundStatus& status) { ++status.tombstones_purged; });
  co_return Result<>{};
}

Task<> TombstonePurge::mark_volume(VolumeId volume, RowKind kind, Progress& progress,
                                   std::uint64_t& waiting) {
  const auto client = context_.membership.volume(volume);
  if (client == nullptr) co_return fail(Errc::unavailable, "no such volume here");
  const auto executor = co_await boost::asio::this_coro::executor;
  RegisterListRequest request;
  request.kind = kind;
  request.only = ValueKind::tombstone;
  request.rows_max = context_.options.page_rows;
  do {
    if (!co_await pace_.turn()) co_return Result<>{};
    CO_TRY(page, co_await client->list_registers(request, context_.step_deadline()));
    request.after = std::move(page.covered);
    std::vector<RegisterEntry> rows;
    for (RegisterEntry& row : page.rows) {
      const auto& key = row.key;
      const auto rank = rank_in_group(context_, volume, key.bucket, row.partitions, key.key);
      if (!rank) continue;
      const bool marked = marked_.contains(key);
      if (*rank > 0 && !marked && !is_left_alone(volume, *rank, row)) continue;
      if (*rank == 0 || !marked) ++waiting;  // each once
      if (!marked && is_worth_a_round(row)) rows.push_back(std::move(row));
    }
    for (std::size_t first = 0; first < rows.size(); first += kRoundsSideBySide) {
      const std::size_t last = std::min(first + kRoundsSideBySide, rows.size());
      FanOut<void> marks;
      for (std::size_t i = first; i < last; ++i) {
        if (marked_.size() + (last - first) > limits::kTombstonesMarkedMax) break;
        if (!co_await pace_.turn()) break;
        marks.start(executor, mark(row_of(std::move(rows[i].key), rows[i].partitions)));
      }
      co_await marks.wait_all();
      progress.step(last - first);
      if (context_.stops()) co_return Result<>{};
    }
  } while (request.after);
  co_return Result<>{};
}

Task<> TombstonePurge::mark(RegisterRef ref) {
  CO_TRY(mark, co_await context_.proposer.mark_tombstone(ref, context_.step_deadline()));
  if (!mark) co_return Result<>{};
  // The wait begins when all have acked, which was before now.
  marked_[ref.key] = Marked{ref.partitions, *mark, context_.clock.boot()};
  co_return Result<>{};
}

// A later volume of the group looks at what the first one has left alone for longer than a purge
// takes: each mark gives the row a new ballot, and makes the mark of another process worthless.
bool TombstonePurge::is_left_alone(VolumeId volume, std::size_t rank, const RegisterEntry& row) {
  const RemovalOptions& options = context_.options;
  const Duration purge = options.tombstone_wait + 2 * options.tombstones_every;
  const auto turn = static_cast<Duration::rep>(rank) * (options.takeover + purge);
  const BootTime looked = context_.clock.boot();
  const Holding holding{volume, row.key};
  const auto known = noted_.find(holding);
  // Without room it waits until others are done.
  if (known == noted_.end() && noted_.size() >= limits::kTombstonesMarkedMax) return false;
  Noted& noted = known == noted_.end() ? noted_[holding] : known->second;
  if (noted.ballot != row.ballot) noted = {row.ballot, looked};
  noted.pass = passes_;
  return looked - noted.since >= turn;
}

// Each volume by itself: one that is away for days must not fill the room of all.
void TombstonePurge::forget_what_went(VolumeId volume) {
  std::erase_if(noted_, [&](const auto& entry) {
    return entry.first.first == volume && entry.second.pass != passes_;
  });
}

bool TombstonePurge::is_worth_a_round(const RegisterEntry& row) {
  const auto map = context_.membership.map();
  const RegisterKey& key = row.key;
  const auto share = group_of_key(*map, key.bucket, row.partitions, key.key);
  const auto replicas = replicas_of(*map, share.group);
  if (!replicas) return false;
  const bool suspects =
      std::any_of(replicas->volumes.begin(), replicas->volumes.end(),
                  [this](VolumeId id) { return context_.membership.suspect(id); });
  return !suspects || tried_.insert(share.group).second;
}

}  // namespace penstock
