// A PUT that is on its way while its bucket is deleted as empty.
#include <algorithm>
#include <array>

#include "server/index/bucket_catalog.h"
#include "server/records/object_record.h"
#include "tests/sim/stage.h"

namespace penstock::sim {
namespace {

const std::string kLatePut = "late";

using Roles = std::array<std::size_t, 3>;

// The accept of a PUT reaches the first of the roles at once, the second 200 ms later and the third
// never; meanwhile the bucket is deleted by another gateway.
struct LatePut {
  explicit LatePut(SimClusters& clusters, Roles order) : stage(clusters, 3, 2) {
    const auto replicas = stage.replicas(kLatePut);
    for (std::size_t i = 0; i < 3; ++i) role[i] = replicas[order[i]];
    for (int i = 0; i < 2; ++i) stage.ask(i, "GET", kLatePut);
    const auto& wires = stage.gateway(0).wires();
    for (const auto& wire : wires) wire->slow_answers = 10 * kMillisecond;
    put = stage.begin(0, "PUT", kLatePut, std::string(32, 'l'));
    stage.run_for(12 * kMillisecond);  // its promises are on the way
    wires[role[1]]->slow_requests = 200 * kMillisecond;
    wires[role[2]]->cut_requests = true;
    const auto arrived = [this] { return !stage.row(role[0], kLatePut).ballot.is_zero(); };
    for (int step = 0; step < 600 && !arrived(); ++step) stage.run_for(100);
    stage.expect(!stage.row(role[0], kLatePut).ballot.is_zero(), "no replica has the accept");
    stage.expect(stage.row(role[1], kLatePut).ballot.is_zero(), "a replica has it too early");
    // The fence reaches the second role later than the accept does; all else reaches it at once.
    const auto& other = stage.gateway(1).wires();
    deleted = stage.begin(1, "DELETE", "");
    for (int step = 0; step < 100'000 && !deleting(); ++step) stage.run_for(1);
    other[role[1]]->slow_requests = 400 * kMillisecond;
    other[role[2]]->slow_answers = 5 * kMillisecond;
    const auto raised = [this] { return fenced(role[0]) && fenced(role[2]); };
    for (int step = 0; step < 20'000 && !raised(); ++step) stage.run_for(10);
    other[role[1]]->slow_requests = 0;
  }
  Violations end() {
    stage.run_until([this] { return put->has_value() && deleted->has_value(); });
    const bool both = put->has_value() && deleted->has_value() && (*put)->status == 200 &&
                      (*deleted)->status == 204;
    stage.expect(!both, "a PUT is acknowledged in a bucket that was deleted as empty");
    return stage.violations;
  }
  // The bucket's own register says that it is being deleted.
  bool deleting() {
    const RegisterRef ref = BucketCatalog::register_of(SimClient::kBucket);
    std::size_t count = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto row = stage.row_of(i, ref);
      const auto value = row.value ? decode_value(ref.key, *row.value)
                                   : Result<RegisterValue>(fail(Errc::not_found, ""));
      const auto record = value ? bucket_record(*value) : Result<BucketRecord>(value.error());
      count += record && record->state == BucketState::deleting ? 1 : 0;
    }
    return count >= 2;
  }
  bool fenced(std::size_t volume) {
    const auto state = stage.wait(stage.volume(volume).current()->read_join_state(stage.until()));
    return state && !state->fences.empty();
  }

  Stage stage;
  Roles role{};
  Stage::Later put;
  Stage::Later deleted;
};

// Which replicas a scan asks is its own affair: every order of the roles is played.
template <class Play>
Violations for_all_orders(Play play) {
  Violations all;
  Roles order{0, 1, 2};
  do {
    auto found = play(order);
    all.insert(all.end(), found.begin(), found.end());
  } while (std::next_permutation(order.begin(), order.end()));
  return all;
}

}  // namespace

// A key on which the fenced replicas do not agree is settled: a mere read might be answered by a
// replica without the fence, which takes the accept later.
Violations undecided_keys_hold_a_bucket(SimClusters& clusters) {
  return for_all_orders([&](Roles order) {
    LatePut play(clusters, order);
    return play.end();
  });
}

// Fence and list are of one majority. Were they not, the replica that would tell of the PUT could
// be missing from the list, and the one that takes it from the fence.
Violations list_comes_from_the_fenced(SimClusters& clusters) {
  return for_all_orders([&](Roles order) {
    LatePut play(clusters, order);
    play.stage.run_for(kMillisecond);  // one of the fenced has replied
    play.stage.gateway(1).wires()[play.role[0]]->cut_requests = true;
    return play.end();
  });
}

}  // namespace penstock::sim
