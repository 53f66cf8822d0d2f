// What a LIST may conclude from what replicas say, and from what they do not say.
#include "server/index/list_merge.h"
#include "tests/sim/stage.h"

namespace penstock::sim {
namespace {

std::size_t count_keys(Stage& stage, const std::string& page) {
  std::string token;
  std::size_t keys = 0;
  for (int pages = 0; pages < 200; ++pages) {
    Stage::Pairs query{{"list-type", "2"}, {"max-keys", page}};
    if (!token.empty()) query.emplace_back("continuation-token", token);
    const auto listed = stage.ask(0, "GET", "", "", {}, std::move(query));
    if (listed.status != 200) break;
    for (auto at = listed.body.find("<Key>"); at != std::string::npos;
         at = listed.body.find("<Key>", at + 1)) {
      ++keys;
    }
    token = xml_element(listed.body, "NextContinuationToken");
    if (token.empty()) break;
  }
  return keys;
}

ScanRow row_of_scan(std::string key, std::uint64_t counter, ValueKind kind) {
  ScanRow row;
  row.key = std::move(key);
  row.ballot = Ballot{counter, 1, 1};
  row.kind = kind;
  return row;
}

MergeInput three_replies() {
  MergeInput input;
  input.quorum.replicas = IndexMask::below(3);
  input.replies.resize(3);
  return input;
}

}  // namespace

// Behind more deleted keys than one scan takes the list goes on.
Violations list_goes_on_behind_its_scans(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  constexpr int kKeys = 120;
  for (int i = 0; i < kKeys; ++i) {
    const std::string key = "key" + std::to_string(100 + i);
    stage.ask(0, "PUT", key, std::string(32, 'k'));
    if (i < kKeys - 10) stage.ask(0, "DELETE", key);
  }
  stage.expect(count_keys(stage, "5") == 10, "a LIST ends before its last keys");
  return stage.violations;
}

// One replica's scan ends early, at rows of its own; another one missed all PUTs. Who ended early
// says nothing of the keys behind its end.
Violations short_scan_is_no_absence(SimClusters& clusters) {
  constexpr std::size_t kKeys = 40;
  Violations all;
  for (std::size_t slow = 0; slow < 3; ++slow) {
    Stage stage(clusters, 3, 1);
    stage.stop_background();
    const auto replicas = stage.replicas("key");
    stage.cut(0, replicas[2], true);
    for (std::size_t i = 0; i < kKeys; ++i) {
      stage.ask(0, "PUT", "key" + std::to_string(100 + i), std::string(32, 'k'));
    }
    for (int i = 100; i < 180; ++i) {
      RegisterRef ref = stage.object("key");
      ref.key.key = "a" + std::to_string(i);
      stage.inject(replicas[0], ref, tombstone_value(), 0);
    }
    stage.cut(0, replicas[2], false);
    for (int i = 0; i < 4; ++i) stage.ask(0, "GET", "other");  // nobody is suspect any more
    stage.gateway(0).wires()[replicas[slow]]->slow_answers = 60 * kMillisecond;
    const auto keys = count_keys(stage, "1");
    stage.expect(keys == kKeys, "a LIST shows " + std::to_string(keys) + " of 40 keys");
    all.insert(all.end(), stage.violations.begin(), stage.violations.end());
  }
  return all;
}

// A scan over a damaged block ends there, as if no more rows were there.
Violations damaged_block_ends_no_list(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  constexpr std::size_t kKeys = 120;
  for (std::size_t i = 0; i < kKeys; ++i) {
    stage.ask(0, "PUT", "key" + std::to_string(100 + i), std::string(64, 'r'));
  }
  stage.run_for(kSecond);
  for (std::size_t i = 0; i < 3; ++i) {
    stage.volume(i).kill();
    (void)stage.volume(i).start();  // the log becomes a table
  }
  stage.run_for(kSecond);
  stage.ask(0, "GET", "key100");  // its block, with the bucket's row, is in memory now
  for (std::size_t i = 0; i < 2; ++i) {
    auto& disk = stage.volume(i).disk();
    for (const auto& name : disk.files()) {
      const auto size = disk.file_size(name);
      if (name.ends_with(".ldb") && size) disk.flip_bit(name, *size * 7 / 10, 3);
    }
  }
  stage.cut(0, 2, true);
  for (int i = 0; i < 4; ++i) stage.ask(0, "GET", "key100");  // it suspects what is out of reach
  const auto listed = stage.ask(0, "GET", "", "", {}, Stage::Pairs{{"list-type", "2"}});
  std::size_t keys = 0;
  for (auto at = listed.body.find("<Key>"); at != std::string::npos;
       at = listed.body.find("<Key>", at + 1)) {
    ++keys;
  }
  stage.expect(listed.status != 200 || keys == kKeys, "a LIST leaves out what cannot be read");
  return stage.violations;
}

// A row that cannot be read may be live: two of them are no majority that is absent.
Violations unreadable_row_is_silence(SimClusters&) {
  Violations violations;
  MergeInput input = three_replies();
  input.replies[0].emplace();
  input.replies[0]->rows.push_back(row_of_scan("key", 1, ValueKind::object));
  for (const std::size_t i : {1, 2}) {
    input.replies[i].emplace();
    input.replies[i]->rows.push_back(row_of_scan("key", 0, ValueKind::absent));
    input.replies[i]->rows.back().unreadable = true;
  }
  ListMerge merge(std::move(input));
  if (merge.next().what != ListMerge::Step::What::ask) {
    violations.push_back("a row that cannot be read counts as absent");
  }
  return violations;
}

// Two replicas with tombstones of two deletions, neither of which was chosen: the live value is, if
// one of the two and the third have taken it. The third does not answer, or did before it had it.
Violations two_tombstones_are_no_deletion(SimClusters&) {
  Violations violations;
  for (const bool answers : {false, true}) {
    MergeInput input = three_replies();
    for (const std::size_t i : {0, 1}) {
      input.replies[i].emplace();
      input.replies[i]->rows.push_back(row_of_scan("key", i + 1, ValueKind::tombstone));
    }
    if (answers) input.replies[2].emplace();
    ListMerge merge(std::move(input));
    if (merge.next().what != ListMerge::Step::What::ask) {
      violations.push_back("a deletion is shown that was never chosen");
    }
  }
  return violations;
}

// A replica that named one key of a common prefix has skipped the others.
Violations skipped_keys_are_not_absent(SimClusters&) {
  Violations violations;
  MergeInput input = three_replies();
  input.delimiter = "/";
  for (auto& reply : input.replies) reply.emplace();
  input.replies[0]->rows.push_back(row_of_scan("p/a", 1, ValueKind::object));  // never chosen
  input.replies[1]->rows.push_back(row_of_scan("p/b", 2, ValueKind::object));
  ListMerge merge(std::move(input));
  if (merge.next().what == ListMerge::Step::What::end) {
    violations.push_back("a common prefix is left out for what a replica skipped");
  }
  return violations;
}

}  // namespace penstock::sim
