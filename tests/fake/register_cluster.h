// R acceptors in memory, a map with one register group over them, and proposers that share no more
// than the network. Single-threaded; time jumps.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/proposer/proposer.h"
#include "tests/fake/fake_acceptor.h"
#include "tests/fake/fake_clock.h"
#include "tests/fake/seeded_random.h"

namespace penstock {

struct RegisterCluster {
  explicit RegisterCluster(std::size_t replicas = 5, std::size_t proposers_count = 1,
                           std::uint64_t seed = 1, std::size_t joint = 0);
  ~RegisterCluster();

  // A process: what it knows of the cluster and its proposer. Clock and network are shared.
  struct Process {
    std::unique_ptr<Membership> membership;
    std::unique_ptr<Proposer> proposer;
  };
  Proposer& proposer(std::size_t index = 0) { return *processes[index].proposer; }
  Deadline soon() const { return clock.boot() + Duration(limits::kOperationDeadline); }
  template <class T>
  T run(Awaitable<T> task) {
    return run_task(io, clock, std::move(task));
  }
  // Until nothing is under way any more.
  void settle_down() { run_all(io, clock); }
  // Writes `text` as an update of its own, by the first proposer.
  Result<Snapshot> put(const RegisterRef& ref, std::string text);
  Result<Snapshot> read(const RegisterRef& ref, ReadWant want = ReadWant::value,
                        std::size_t process = 0);

  boost::asio::io_context io;
  FakeClock clock;
  SeededRandom random;
  std::vector<std::shared_ptr<FakeAcceptor>> acceptors;
  std::shared_ptr<ClusterMap> map = std::make_shared<ClusterMap>();
  std::vector<Process> processes;
};

RegisterRef object_register(std::string key);
std::string text_of(const Snapshot& snapshot);  // "-" if absent or deleted

// Writes a text, if `expected` is empty or is the present text ("-" = absent).
class TextUpdate final : public RegisterUpdate {
 public:
  TextUpdate(OpId op_id, std::string text, std::string expected = "")
      : op_id_(op_id), text_(std::move(text)), expected_(std::move(expected)) {}
  Task<Decision> decide(const Snapshot& current) override;
  OpId op_id() const override { return op_id_; }
  ValueKind kind = ValueKind::object;
  SharedBytes inline_bytes;
  std::vector<Hint> hints;
  int decisions = 0;
  std::string seen;  // by the last decision

 private:
  OpId op_id_;
  std::string text_;
  std::string expected_;
};

}  // namespace penstock
