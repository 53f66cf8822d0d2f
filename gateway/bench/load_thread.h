// One thread of the load engine: its connections, what they wait for, and what it has counted.
// Thread-safety: run() on a thread of its own; the counters of `shared` from any.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "gateway/bench/load_engine.h"

namespace penstock {

// Of all threads of one load.
struct LoadShared {
  LoadShared(const S3Endpoint& to, const LoadOptions& with, const Content& holds, LoadSource& from)
      : endpoint(to), options(with), content(holds), source(from) {}
  const S3Endpoint& endpoint;
  const LoadOptions& options;
  const Content& content;
  LoadSource& source;
  BenchTime measure_from{};
  BenchTime measure_until = BenchTime::max();
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> good{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint32_t> running{0};  // threads
};

class LoadThread {
 public:
  LoadThread(LoadShared& shared, std::uint32_t first, std::uint32_t count);
  ~LoadThread();
  void run();
  const LoadTally& tally() const { return tally_; }
  const Error& trouble() const { return trouble_; }  // no context: none

 private:
  struct Slot {
    Slot(const LoadShared& shared, std::uint32_t number);
    LoadConnection connection;
    std::uint32_t number;
    std::uint32_t failures = 0;  // one after another
    bool filled = false;         // the request is there, its time is not
    bool waits_to_send = false;  // EPOLLOUT is asked for
    bool ended = false;
  };
  using Alarm = std::pair<BenchTime, std::uint32_t>;  // when, which of slots_

  void turn(Slot& slot, BenchTime now);  // what comes next for a connection that is free
  bool connect(Slot& slot);
  void start(Slot& slot, BenchTime now);
  void watch(Slot& slot);
  void handle(Slot& slot, std::uint32_t events);
  void finish(Slot& slot, BenchTime now);
  bool in_window(BenchTime now) const;
  void count(Slot& slot, BenchTime now);
  void close_after_failure(Slot& slot, BenchTime now);
  void end(Slot& slot);
  void ring_alarms(BenchTime now);
  void look_for_late(BenchTime now);
  void wait(BenchTime now);

  LoadShared& shared_;
  int epoll_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
  std::uint32_t left_ = 0;
  BenchTime looked_{};
  std::string buffer_;
  LoadTally tally_;
  Error trouble_;
};

}  // namespace penstock
