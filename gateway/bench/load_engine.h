// Runs a load against an endpoint: connections that are kept, spread over a few threads that wait
// with epoll, and a window in which requests count.
// Counted is what is sent after the warm-up and ends before the stop, as is the processes' time.
// What is under way at the stop may end within its timeout: its time counts among the latencies,
// and if it fails it has failed.
// Memory: a connection's buffers, 1 MiB a thread, nothing for each request.
// Thread-safety: run_load() blocks; one thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gateway/bench/content.h"
#include "gateway/bench/latencies.h"
#include "gateway/bench/load_connection.h"
#include "gateway/bench/load_source.h"
#include "penstock/result.h"

namespace penstock {

struct LoadOptions {
  std::uint32_t connections = 1;
  std::uint32_t threads = 1;
  Duration warm_up{};
  Duration measure{};  // zero: until the source says that nothing is left
  Duration timeout{60'000'000};
  std::vector<int> pids;  // whose time and memory are read, with their children's
  bool verify = false;
  const std::atomic<bool>* interrupted = nullptr;  // true: end now; null: nobody does
  bool is_interrupted() const { return interrupted != nullptr && interrupted->load(); }
};

// What was counted.
struct LoadTally {
  std::uint64_t good = 0;
  std::uint64_t failed = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  Latencies latency;
  Latencies first_byte;
  std::map<std::string, std::uint64_t> failures;  // by what was wrong
  std::string first_failure;                      // with what the server said
  LoadTally& operator+=(const LoadTally& other);
};

struct LoadResult {
  LoadTally tally;
  double wall_s = 0;
  double server_cpu_s = 0;
  double server_peak_rss_mib = 0;
  double client_cpu_s = 0;
};

struct LoadProgress {
  double seconds = 0;  // since the window began; below 0: it warms up
  std::uint64_t good = 0;
  std::uint64_t failed = 0;
  std::uint64_t bytes = 0;
};

// Errors: not_found - a process of `pids` is not there, or has ended meanwhile; io - no sockets are
// to be had; aborted - it was interrupted.
Result<LoadResult> run_load(const S3Endpoint& endpoint, const LoadOptions& options,
                            const Content& content, LoadSource& source,
                            const std::function<void(const LoadProgress&)>& tell);

}  // namespace penstock
