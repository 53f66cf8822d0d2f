#include "server/index/list_merge.h"

#include <doctest/doctest.h>

#include <set>

using namespace penstock;

namespace {
constexpr auto kObject = ValueKind::object;
constexpr auto kTombstone = ValueKind::tombstone;

ScanRow row(std::string key, std::uint64_t ballot, ValueKind kind = kObject) {
  ScanRow made;
  made.key = std::move(key);
  made.ballot.counter = ballot;
  made.kind = kind;
  return made;
}

ScanRow unreadable(std::string key) {
  ScanRow made = row(std::move(key), 0, ValueKind::absent);
  made.unreadable = true;
  return made;
}

std::optional<ScanReply> reply(std::vector<ScanRow> rows, std::string covered_to = {}) {
  ScanReply made;
  made.rows = std::move(rows);
  made.covered_to = std::move(covered_to);
  return made;
}

MergeInput input_of(std::vector<std::optional<ScanReply>> replies) {
  MergeInput input;
  input.quorum.replicas = IndexMask::below(replies.size());
  input.replies = std::move(replies);
  for (auto& made : input.replies) {
    if (!made) continue;
    for (ScanRow& each : made->rows) each.summary = "s" + std::to_string(each.ballot.counter);
    break;
  }
  return input;
}

// What the merge hands out: "key" live, "key?" a question, "key!" live without a summary.
// Questions are answered by `live`.
struct Outcome {
  std::vector<std::string> steps;
  std::string resume;
};
Outcome run(ListMerge& merge, const std::set<std::string>& live = {}) {
  Outcome outcome;
  for (;;) {
    auto step = merge.next();
    if (step.what == ListMerge::Step::What::end) break;
    const bool ask = step.what == ListMerge::Step::What::ask;
    if (!ask && step.has_summary) {
      CHECK(step.row.summary == "s" + std::to_string(step.row.ballot.counter));
    }
    outcome.steps.push_back(step.row.key + (ask ? "?" : step.has_summary ? "" : "!"));
    if (ask) merge.answer(live.contains(step.row.key));
  }
  outcome.resume = merge.resume();
  return outcome;
}
Outcome run(MergeInput input, const std::set<std::string>& live = {}) {
  ListMerge merge(std::move(input));
  return run(merge, live);
}
using Steps = std::vector<std::string>;
using Replies = std::vector<std::optional<ScanReply>>;
}  // namespace

TEST_CASE("A key is shown, skipped or asked for by what its replicas say") {
  struct Row {
    const char* name;
    Replies replies;
    Steps steps;
  };
  const auto none = reply({});
  const auto live7 = reply({row("a", 7)});
  const auto live8 = reply({row("a", 8)});
  const auto dead7 = reply({row("a", 7, kTombstone)});
  const auto dead9 = reply({row("a", 9, kTombstone)});
  const auto bad = reply({unreadable("a")});
  const auto silent = std::optional<ScanReply>();
  const Row rows[] = {
      {"all at one ballot", {live7, live7, live7}, {"a"}},
      {"a majority at one ballot", {live7, live7, none}, {"a"}},
      {"the decided value is not the first replica's", {live8, live7, live7}, {"a!"}},
      {"the first replica lacks it", {none, live7, live7}, {"a!"}},
      {"a majority of two replies", {live7, live7, silent}, {"a"}},
      {"two replies that differ", {live7, live8, silent}, {"a?"}},
      {"a live minority against absent", {live7, none, none}, {}},
      {"a live minority against tombstones", {live7, dead9, dead9}, {}},
      {"a live reply, the dead in disagreement", {live7, dead9, none}, {"a?"}},
      {"tombstones at one ballot", {dead7, dead7, none}, {}},
      {"a purge cut short: tombstone or absent", {dead7, none, none}, {}},
      {"tombstones at two ballots, none live", {dead7, dead9, none}, {"a?"}},
      {"tombstones at two ballots, one does not answer", {dead7, dead9, silent}, {"a?"}},
      {"tombstone and absent, one does not answer", {dead7, none, silent}, {"a?"}},
      {"one tombstone at two, one does not answer", {dead7, dead7, silent}, {}},
      {"absent at two, one does not answer", {none, none, silent}, {}},
      {"three ballots", {live7, live8, dead9}, {"a?"}},
      {"an unreadable row says nothing: others agree", {live7, live7, bad}, {"a"}},
      {"an unreadable row says nothing: no majority", {bad, live7, none}, {"a?"}},
      {"an unreadable row is not absent", {bad, none, silent}, {"a?"}},
      {"only unreadable rows", {bad, bad, bad}, {"a?"}},
      {"unreadable, tombstone, absent: it may be live", {bad, dead7, none}, {"a?"}},
  };
  for (const Row& each : rows) {
    CAPTURE(each.name);
    CHECK(run(input_of(each.replies)).steps == each.steps);
  }
}

TEST_CASE("Keys come in order, each once, whichever replicas hold them") {
  const auto outcome = run(input_of({reply({row("a", 1), row("c", 3), row("d", 4)}),
                                     reply({row("a", 1), row("b", 2), row("d", 4)}),
                                     reply({row("b", 2), row("c", 3), row("d", 4)})}));
  CHECK(outcome.steps == Steps{"a", "b!", "c", "d"});
  CHECK(outcome.resume.empty());
}

TEST_CASE("Outside the range that it covers a replica says nothing") {
  // Only up to "c" a majority speaks; "c" itself is no longer decided.
  const auto outcome = run(
      input_of({reply({row("a", 1), row("b", 2)}, "c"),
                reply({row("a", 1), row("b", 2), row("c", 3)}, "d"), reply({row("a", 1)}, "b")}));
  CHECK(outcome.steps == Steps{"a", "b"});
  CHECK(outcome.resume == "c");
  // A reply that stops early does not turn the others' keys into absent ones.
  const auto early = run(input_of({reply({row("a", 1), row("b", 2)}), reply({row("a", 1)}, "aa"),
                                   reply({row("a", 1), row("b", 2)})}));
  CHECK(early.steps == Steps{"a", "b"});
  CHECK(early.resume.empty());
}

TEST_CASE("A replica that covers all does not speak for the others, which stopped before") {
  // The others hold more keys behind "b", and are the majority.
  const auto all = reply({row("a", 1)});
  const auto cut = reply({row("a", 1)}, "b");
  for (const Replies& replies :
       {Replies{all, cut, cut}, Replies{cut, all, cut}, Replies{cut, cut, all}}) {
    const auto outcome = run(input_of(replies));
    CHECK(outcome.steps == Steps{"a"});
    CHECK(outcome.resume == "b");
  }
  CHECK(run(input_of({all, all, cut})).resume.empty());
}

TEST_CASE("During a change a majority of both lists decides") {
  MergeInput input = input_of(
      {reply({row("a", 1)}), reply({row("a", 1)}), reply({row("a", 1)}), reply({}), reply({})});
  input.quorum.replicas = IndexMask::below(3);
  input.quorum.joint = IndexMask::below(5) - IndexMask::below(2);
  CHECK(run(std::move(input)).steps == Steps{"a?"});
  MergeInput agreed = input_of({reply({row("a", 1)}), reply({row("a", 1)}), reply({row("a", 1)}),
                                reply({row("a", 1)}), reply({})});
  agreed.quorum.replicas = IndexMask::below(3);
  agreed.quorum.joint = IndexMask::below(5) - IndexMask::below(2);
  CHECK(run(std::move(agreed)).steps == Steps{"a"});
}

namespace {
MergeInput delimited(Replies replies) {
  MergeInput input = input_of(std::move(replies));
  input.delimiter = "/";
  return input;
}
}  // namespace

TEST_CASE("One live witness stands for a common prefix") {
  const auto same = reply({row("a", 1), row("b/1", 2), row("c", 3)});
  CHECK(run(delimited({same, same, same})).steps == Steps{"a", "b/1", "c"});
  // Rows behind a decided witness are stepped over, whoever returned them.
  const auto more = reply({row("b/1", 2), row("b/2", 2), row("b/3", 2), row("c", 3)});
  CHECK(run(delimited({more, more, more})).steps == Steps{"b/1", "c"});
}

TEST_CASE("A witness is checked like a key, and behind a false one the list looks further") {
  // The first replica missed the delete of b/1 and is silent about what follows.
  const auto stale = reply({row("b/1", 2), row("c", 3)});
  const auto fresh = reply({row("b/1", 5, kTombstone), row("b/2", 4), row("c", 3)});
  CHECK(run(delimited({fresh, stale, fresh})).steps == Steps{"b/2", "c"});
  CHECK(run(delimited({fresh, fresh, reply({row("b/1", 5, kTombstone), row("c", 3)})})).steps ==
        Steps{"b/2", "c"});
  // A majority of false witnesses: a question, and the answer stands for the prefix.
  const auto half = reply({row("b/1", 9), row("c", 3)});
  const auto asked = run(delimited({half, fresh, reply({row("b/1", 2), row("c", 3)})}), {"b/1"});
  CHECK(asked.steps == Steps{"b/1?", "c"});
}

TEST_CASE("Where too few replicas speak inside a prefix, the next scan begins there") {
  // All three stopped at witnesses that are not live after all.
  const auto first = reply({row("b/1", 9), row("c", 3)});
  const auto second = reply({row("b/1", 8), row("c", 3)});
  const auto third = reply({row("b/1", 7), row("c", 3)});
  const auto outcome = run(delimited({first, second, third}));
  CHECK(outcome.steps == Steps{"b/1?"});
  CHECK(outcome.resume == std::string("b/1\0", 4));
  // The same behind a prefix that is live.
  const auto behind = run(delimited({reply({row("a/1", 1), row("b/1", 9), row("c", 3)}),
                                     reply({row("a/1", 1), row("b/1", 8), row("c", 3)}),
                                     reply({row("a/1", 1), row("b/1", 7), row("c", 3)})}));
  CHECK(behind.steps == Steps{"a/1", "b/1?"});
  CHECK(behind.resume == std::string("b/1\0", 4));
  // The same at the end of all rows.
  const auto last = run(delimited({reply({row("b/1", 9)}), reply({row("b/1", 8)}), reply({})}));
  CHECK(last.steps == Steps{"b/1?"});
  CHECK(last.resume == std::string("b/1\0", 4));
}

TEST_CASE("Two of three silent witnesses leave a majority only together with the third") {
  // b/1 is asked for and dead; b/5 is then known to one replica alone.
  const auto outcome =
      run(delimited({reply({row("b/1", 9), row("c", 3)}), reply({row("b/1", 8), row("c", 3)}),
                     reply({row("b/5", 4), row("c", 3)})}));
  CHECK(outcome.steps == Steps{"b/1?"});
  CHECK(outcome.resume == std::string("b/1\0", 4));
}

TEST_CASE("A live prefix is decided to its end, though the scans stopped inside it") {
  const auto cut = reply({row("b/1", 2)}, std::string("b/1\0", 4));
  const auto outcome = run(delimited({cut, cut, cut}));
  CHECK(outcome.steps == Steps{"b/1"});
  CHECK(outcome.resume == "b0");
}

TEST_CASE("A live prefix behind which no key can sort is the end, wherever the scans stopped") {
  const auto cut = reply({row("\xff"
                              "1",
                              2)},
                         "\xff"
                         "2");
  MergeInput input = input_of({cut, cut, cut});
  input.delimiter = "\xff";
  const auto outcome = run(std::move(input));
  CHECK(outcome.steps == Steps{"\xff"
                               "1"});
  CHECK(outcome.resume.empty());
}

TEST_CASE("A scan that was cut inside an undecided prefix goes on where it was cut") {
  const auto cut = reply({row("b/1", 2, kTombstone), row("b/2", 2, kTombstone)}, "b/3");
  const auto outcome = run(delimited({cut, cut, cut}));
  CHECK(outcome.steps.empty());
  CHECK(outcome.resume == "b/3");
}

TEST_CASE("Five replicas: every split of one live ballot against absence is told right") {
  for (int live = 0; live <= 5; ++live) {
    Replies replies;
    for (int i = 0; i < 5; ++i) replies.push_back(i < live ? reply({row("a", 7)}) : reply({}));
    const Steps expected = live >= 3 ? Steps{"a"} : Steps{};
    CAPTURE(live);
    CHECK(run(input_of(std::move(replies))).steps == expected);
  }
}
