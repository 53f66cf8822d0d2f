#include <algorithm>

#include "penstock/fan_out.h"
#include "penstock/planted.h"
#include "server/background/replacement/register_walk.h"
#include "server/background/replacement/replacement_context.h"
#include "server/membership/replica_set.h"

namespace penstock {
namespace {

constexpr std::size_t kRowsAtOnce = 32;
constexpr int kTriesMax = 20;
constexpr RowKind kKinds[] = {RowKind::upload, RowKind::part, RowKind::object};

using Found = std::vector<RegisterWalk::Found>;

bool in_joint_group(const ClusterMap& map, const RegisterWalk::Found& row) {
  const auto share = group_of_key(map, row.key.bucket, row.partitions, row.key.key);
  return !map.groups[share.group.value].joint.empty();
}

Task<> bring_one(ReplacementContext* context, RegisterWalk::Found row) {
  RegisterRef ref;
  ref.key = std::move(row.key);
  ref.partitions = row.partitions;
  for (int attempt = 1;; ++attempt) {
    Proposer& proposer = context->parts.proposer;
    auto done = co_await proposer.write_back(ref, WriteBack::always, true, context->soon());
    if (done) co_return Result<>{};
    if (attempt == kTriesMax || context->stopping.load()) co_return done.error();
    Clock& clock = context->parts.clock;
    co_await clock.sleep_until(clock.boot() + context->parts.options.look_every);
  }
}

// Side by side: the volumes sync what comes together as one.
Task<> bring_some(ReplacementContext& context, Found rows) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const std::size_t count = rows.size();
  co_await context.rows.wait(static_cast<double>(count));
  FanOut<void> rounds;
  for (auto& row : rows) rounds.start(executor, bring_one(&context, std::move(row)));
  co_await rounds.wait_all();
  for (const auto& answer : rounds.take()) CO_CHECK(*answer);
  context.board.step(count);
  context.board.change([count](ReplacementStatus& status) { status.rows_brought += count; });
  co_return Result<>{};
}

// All rows of one kind, or only their number.
Task<std::uint64_t> walk_rows(ReplacementContext& context, std::shared_ptr<const ClusterMap> map,
                              Volumes volumes, RowKind kind, bool count_only) {
  RegisterWalk walk(kind, std::move(volumes), context.parts.clock, context.parts.options.page_rows);
  std::uint64_t seen = 0;
  Found waiting;
  while (true) {
    if (context.stopping.load()) co_return fail(Errc::aborted, "the process stops");
    CO_TRY(found, co_await walk.next(kRowsAtOnce, context.soon()));
    const bool ended = found.empty();
    std::erase_if(found, [&](const auto& row) { return !in_joint_group(*map, row); });
    seen += found.size();
    if (!count_only) waiting.insert(waiting.end(), found.begin(), found.end());
    if (waiting.size() >= kRowsAtOnce || (ended && !waiting.empty())) {
      CO_CHECK(co_await bring_some(context, std::exchange(waiting, Found())));
    }
    if (ended) break;
  }
  if (!covers(*map, walk.listed(), true) && holds(Rule::brought_majority)) {
    co_return too_few_listed();
  }
  co_return seen;
}

}  // namespace

bool covers(const ClusterMap& map, const std::vector<VolumeId>& listed, bool joint_only) {
  const auto has = [&](VolumeId id) {
    return std::find(listed.begin(), listed.end(), id) != listed.end();
  };
  return std::all_of(map.groups.begin(), map.groups.end(), [&](const MapGroup& group) {
    if (joint_only && group.joint.empty()) return true;
    return has_majority(group.replicas, has);
  });
}

Error too_few_listed() {
  return fail(Errc::unavailable,
              "too few volumes list all their rows: some are silent, or cannot read all they have");
}

Task<> bring_rows(ReplacementContext& context, std::shared_ptr<const ClusterMap> map,
                  Volumes volumes) {
  if (!holds(Rule::rows_brought)) co_return Result<>{};
  context.board.begin("counting rows", 0);
  std::uint64_t total = 0;
  for (const RowKind kind : kKinds) {
    CO_TRY(count, co_await walk_rows(context, map, volumes, kind, true));
    total += count;
  }
  context.board.begin("bringing rows", total);
  for (const RowKind kind : kKinds) {
    CO_CHECK(co_await walk_rows(context, map, volumes, kind, false));
  }
  co_return Result<>{};
}

}  // namespace penstock
