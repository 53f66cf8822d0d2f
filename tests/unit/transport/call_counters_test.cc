// What is counted and logged of calls, at both ends.
#include "server/transport/call_counters.h"

#include <doctest/doctest.h>

#include <string>

#include "penstock/log.h"
#include "tests/fake/code_of.h"
#include "tests/unit/transport/transport_world.h"

namespace penstock {
namespace {

std::string lines;
void keep_line(LogLevel, std::string_view line) { lines.append(line).append("\n"); }

struct KeptLog {
  KeptLog() {
    lines.clear();
    set_log_sink(keep_line);
  }
  ~KeptLog() {
    set_log_sink(nullptr);
    set_log_level(LogLevel::info);
  }
};

std::shared_ptr<const ReadRequest> a_read() {
  auto read = std::make_shared<ReadRequest>();
  read->key.bucket = BucketId{1};
  read->key.key = "k";
  return read;
}

std::uint64_t calls(const CallCounts& counts, wire::Operation operation, CallOutcome outcome) {
  return counts.calls[static_cast<std::size_t>(operation)][static_cast<std::size_t>(outcome)];
}

const Trace kTrace{0x123456789abcdef0, {0x0af7651916cd43dd, 0x8448eb211c80319c}};
constexpr const char* kRequestText = "0FEDCBA987654321";

TEST_CASE("calls are counted by how they ended, at both ends") {
  TransportWorld world;
  world.connect();
  REQUIRE(world.run(world.remote->read(a_read(), world.soon())));
  world.volume->acceptor.state = VolumeStatus::State::closed;
  CHECK_FALSE(world.run(world.remote->read(a_read(), world.soon())));
  const CallCounts counts = world.server->counts().calls;
  CHECK(calls(counts, wire::Operation::read, CallOutcome::ok) == 1);
  CHECK(calls(counts, wire::Operation::read, CallOutcome::error) == 1);
  CHECK(counts.errors[static_cast<std::size_t>(Errc::unavailable)] == 1);
  CHECK(counts.durations[static_cast<std::size_t>(CallKind::record)].count() == 2);
  CHECK(counts.bytes_out > 2 * wire::kHeaderBytes);
  CHECK(counts.bytes_in > 2 * wire::kHeaderBytes);
  CHECK(counts.under_way == 0);
  CHECK(world.server->counts().connections == 1 + limits::kByteConnections);
}

TEST_CASE("what was not sent, and what nobody answered, is told apart") {
  TransportWorld world;
  world.connect();
  for (const FakeWire& wire : world.wires) wire.to_client->stalled = true;
  CHECK_FALSE(world.run(world.remote->read(a_read(), world.soon())));
  CallCounts counts = world.server->counts().calls;
  CHECK(calls(counts, wire::Operation::read, CallOutcome::unknown) == 1);
  world.reachable = false;
  for (const FakeWire& wire : world.wires) wire.cut();
  world.settle();
  CHECK_FALSE(world.run(world.remote->read(a_read(), world.soon())));
  counts = world.server->counts().calls;
  CHECK(calls(counts, wire::Operation::read, CallOutcome::unsent) == 1);
  CHECK(counts.under_way == 0);
  CHECK(world.server->counts().connections == 0);
}

TEST_CASE("a server's log names the request of a call that failed, and no other") {
  TransportWorld world;
  world.connect();
  const KeptLog log;
  const Deadline deadline(world.soon().at(), kTrace);
  REQUIRE(world.run(world.remote->read(a_read(), deadline)));
  CHECK(lines.empty());
  world.volume->acceptor.state = VolumeStatus::State::closed;
  CHECK_FALSE(world.run(world.remote->read(a_read(), deadline)));
  CAPTURE(lines);
  CHECK(lines.find("event=call_failed") != std::string::npos);
  CHECK(lines.find(std::string("request_id=") + kRequestText) != std::string::npos);
  CHECK(lines.find("trace_id=0af7651916cd43dd8448eb211c80319c") != std::string::npos);
  CHECK(lines.find("operation=read") != std::string::npos);
  CHECK(lines.find("peer=g1") != std::string::npos);
}

TEST_CASE("a volume that is not open draws one line at once, then one a second with a count") {
  TransportWorld world;
  world.connect();
  const KeptLog log;
  const auto told = [] {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = lines.find("event=call_failed", at)) != std::string::npos;
         ++at) {
      ++count;
    }
    return count;
  };
  world.volume->acceptor.state = VolumeStatus::State::closed;
  for (int call = 0; call < 40; ++call) {
    CHECK_FALSE(world.run(world.remote->read(a_read(), world.soon())));
  }
  CHECK(told() == 2);  // of one second: the first, and a repeat
  world.run_for(std::chrono::seconds(2));
  CHECK_FALSE(world.run(world.remote->read(a_read(), world.soon())));
  CHECK(told() == 3);
  CHECK(lines.find("left_out=38") != std::string::npos);
}

TEST_CASE("at debug each call is told, background ones without a request") {
  TransportWorld world;
  world.connect();
  const KeptLog log;
  set_log_level(LogLevel::debug);
  const Deadline deadline(world.soon().at(), kTrace);
  REQUIRE(world.run(world.remote->read(a_read(), deadline)));
  CHECK(lines.find(std::string("event=call request_id=") + kRequestText) != std::string::npos);
  lines.clear();
  REQUIRE(world.run(world.remote->read(a_read(), world.soon())));
  CHECK(lines.find("event=call operation=read") != std::string::npos);
}

TEST_CASE("a call that takes longer than a second is told") {
  TransportWorld world;
  world.connect();
  world.volume->acceptor.fate = [](VolumeId, RegisterCall, const RegisterKey&) {
    Fate fate;
    fate.reply_delay = std::chrono::milliseconds(1500);
    return fate;
  };
  const KeptLog log;
  REQUIRE(world.run(world.remote->read(a_read(), Deadline(world.soon().at(), kTrace))));
  CHECK(lines.find(std::string("event=call_slow request_id=") + kRequestText) != std::string::npos);
}

TEST_CASE("a trace goes behind the fields, and comes off them") {
  std::string fields = "fields";
  wire::append_trace(fields, kTrace);
  CHECK(fields.size() == 6 + wire::kTraceBytes);
  const auto trace = wire::take_trace(fields);
  REQUIRE(trace);
  CHECK(*trace == kTrace);
  CHECK(fields == "fields");
  CHECK(code_of(wire::take_trace(fields)) == Errc::corrupt);
}

}  // namespace
}  // namespace penstock
