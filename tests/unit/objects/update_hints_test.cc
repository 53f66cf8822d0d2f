#include <doctest/doctest.h>

#include "penstock/log.h"
#include "server/proposer/update_round.h"
#include "tests/fake/fake_cluster.h"

namespace penstock {
namespace {

std::string hints_log;

// Frees as much as an abort of 10,000 parts.
class FreeMuch final : public RegisterUpdate {
 public:
  explicit FreeMuch(OpId op_id) : op_id_(op_id) {}
  Task<Decision> decide(const Snapshot&) override {
    Decision decision;
    decision.action = Decision::Action::write;
    decision.value = tombstone_value();
    for (std::uint64_t i = 0; i < limits::kPartsMax; ++i) {
      Hint hint;
      hint.write_id = WriteId{1, i};
      hint.locations.assign(130, 'l');
      hint.upload_id.assign(32, 'u');
      decision.hints.push_back(std::move(hint));
    }
    co_return decision;
  }
  OpId op_id() const override { return op_id_; }

 private:
  OpId op_id_;
};

}  // namespace

TEST_CASE("An update that frees more than an accept names says so, and names what fits") {
  set_log_sink([](LogLevel, std::string_view line) { hints_log += line; });
  FakeCluster cluster;
  set_log_level(LogLevel::info);
  const auto bucket = cluster.make_bucket("bucket");
  for (const bool long_key : {false, true}) {
    CAPTURE(long_key);
    const RegisterRef ref =
        Index::object(*bucket, std::string(long_key ? limits::kKeyBytesMax : 10, 'k'));
    FreeMuch update(cluster.gateway->proposer.new_op_id());
    hints_log.clear();
    REQUIRE(cluster.run(cluster.gateway->proposer.update(ref, update, cluster.soon())));
    cluster.settle_down();
    std::size_t bytes = 0, count = 0;
    for (const auto& volume : cluster.volumes) {
      std::size_t here = 0;
      for (const auto& [name, hint] : volume->acceptor.stored_hints) {
        if (hint.key != ref.key.key) continue;
        ++here;
        bytes +=
            stored_bytes(ref.key, Hint{name.write_id, name.due, hint.locations, hint.upload_id});
      }
      count = std::max(count, here);
    }
    CHECK(bytes <= 5 * limits::kHintBytesPerAcceptMax);
    CHECK((count == limits::kPartsMax) == !long_key);
    CHECK(count > 3'000);
    CHECK((hints_log.find("hints_left_out") != std::string::npos) == long_key);
  }
  set_log_level(LogLevel::error);
  set_log_sink(nullptr);
}

}  // namespace penstock
