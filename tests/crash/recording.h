// One recorded load: six volumes on simulated disks, a gateway, clients; two lives of the process,
// so that a start with something on the disks is part of it. Everything follows from the seed, up
// to the call of a disk at which the observer interferes.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/crash/client.h"
#include "tests/crash/image.h"
#include "tests/crash/process.h"

namespace penstock::crash {

class Recording {
 public:
  // A call of a disk that is about to be made.
  struct Call {
    std::uint64_t number = 0;  // from 1, over all volumes
    std::uint64_t change = 0;  // the same over calls that are no reads; unchanged by a read
    std::size_t volume = 0;
    FakeDisk::Call kind = FakeDisk::Call::read;
    std::string name;
  };
  using Observer = std::function<void(const Call&)>;

  Recording(std::uint64_t seed, int operations);
  // Of the machine on which the load runs; empty: not known. Before run().
  void set_boot(std::string id) { boot_id_ = std::move(id); }
  // Runs the load. `observer` is called within the calls of the disks; it may fork, and cut the
  // power of a copy or call fail_here() in the child.
  void run(Observer observer);

  // The call that is being observed does not succeed. The clients do a few more operations, then
  // run() returns.
  struct Fault {
    FakeDisk::Fault kind = FakeDisk::Fault::io;
    bool lasting = false;  // nothing succeeds on this disk any more
  };
  void fail_here(const Call& call, Fault fault);
  // After a fault: whether the volume must have left by now.
  bool failed_volume_left() const { return left_; }

  const Disks& disks() const { return disks_; }
  Ledger& ledger() { return ledger_; }
  std::shared_ptr<const sim::SimCluster> cluster() const { return cluster_; }
  sim::SimMicros now() const { return time_.now(); }
  std::uint64_t calls() const { return calls_; }
  std::uint64_t changes() const { return changes_; }
  std::uint64_t trace() const { return time_.trace_hash(); }
  const std::vector<std::string>& violations() const { return load_.violations; }

 private:
  void start_process();
  void run_clients(int operations);
  Awaitable<void> make_bucket(bool& done);
  void violation(std::string text) { load_.violations.push_back(std::move(text)); }

  const std::uint64_t seed_;
  const int operations_;
  std::string boot_id_;
  sim::SimTime time_;
  sim::SimRandom random_;
  std::shared_ptr<const sim::SimCluster> cluster_;
  Disks disks_;
  Ledger ledger_;
  LoadState load_{time_, ledger_};
  std::unique_ptr<Process> process_;
  std::vector<std::unique_ptr<Client>> clients_;
  Observer observer_;
  std::uint64_t calls_ = 0;
  std::uint64_t changes_ = 0;
  std::size_t failed_ = 0;  // volume, once load_.faulty
  bool left_ = false;
};

}  // namespace penstock::crash
