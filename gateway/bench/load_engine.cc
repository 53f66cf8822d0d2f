#include "gateway/bench/load_engine.h"

#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "gateway/bench/load_thread.h"
#include "gateway/bench/process_usage.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kLookEvery{20};
constexpr std::chrono::milliseconds kSampleEvery{250};

double own_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

double seconds_of(Duration duration) { return static_cast<double>(duration.count()) * 1e-6; }

void run_threads(LoadShared& shared, std::vector<std::unique_ptr<LoadThread>>& loads,
                 std::vector<std::thread>& threads) {
  const std::uint32_t connections = std::max(1U, shared.options.connections);
  const std::uint32_t count = std::clamp(shared.options.threads, 1U, connections);
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t its = connections / count + (i < connections % count ? 1 : 0);
    loads.push_back(std::make_unique<LoadThread>(shared, first, its));
    first += its;
  }
  shared.running.store(count);
  for (const auto& load : loads) threads.emplace_back([thread = load.get()] { thread->run(); });
}

}  // namespace

LoadTally& LoadTally::operator+=(const LoadTally& other) {
  good += other.good;
  failed += other.failed;
  bytes_in += other.bytes_in;
  bytes_out += other.bytes_out;
  latency += other.latency;
  first_byte += other.first_byte;
  for (const auto& [what, count] : other.failures) failures[what] += count;
  if (first_failure.empty()) first_failure = other.first_failure;
  return *this;
}

Result<LoadResult> run_load(const S3Endpoint& endpoint, const LoadOptions& options,
                            const Content& content, LoadSource& source,
                            const std::function<void(const LoadProgress&)>& tell) {
  CHECK_OK(usage_of(options.pids));
  LoadShared shared(endpoint, options, content, source);
  const BenchTime warm_at = bench_now() + options.warm_up;
  // Without a warm-up all counts, also what was meant to begin a moment ago.
  if (options.warm_up != Duration{}) shared.measure_from = warm_at;
  if (options.measure != Duration{}) shared.measure_until = warm_at + options.measure;
  std::vector<std::unique_ptr<LoadThread>> loads;
  std::vector<std::thread> threads;
  run_threads(shared, loads, threads);
  const auto told = [&](BenchTime now) {
    if (tell) {
      tell({seconds_of(now - warm_at), shared.good.load(), shared.failed.load(),
            shared.bytes.load()});
    }
  };
  while (bench_now() < warm_at && !options.is_interrupted()) {
    std::this_thread::sleep_until(std::min(warm_at, bench_now() + Duration(kSampleEvery)));
  }
  const BenchTime begun = bench_now();
  const double own_before = own_cpu_seconds();
  LoadResult result;
  ProcessUsage before, after;
  if (const auto usage = usage_of(options.pids)) before = *usage;
  after = before;
  result.server_peak_rss_mib = before.rss_mib;
  const bool timed = options.measure != Duration{};
  const auto goes_on = [&] {
    return !options.is_interrupted() && shared.running.load() > 0 &&
           (!timed || bench_now() < begun + options.measure);
  };
  for (BenchTime sampled = begun; goes_on();) {
    const BenchTime next = bench_now() + Duration(kLookEvery);
    std::this_thread::sleep_until(timed ? std::min(next, begun + options.measure) : next);
    if (bench_now() < sampled + kSampleEvery) continue;
    sampled = bench_now();
    if (const auto usage = usage_of(options.pids)) after = *usage;
    result.server_peak_rss_mib = std::max(result.server_peak_rss_mib, after.rss_mib);
    told(sampled);
  }
  const auto last = usage_of(options.pids);
  if (last) after = *last;
  result.server_peak_rss_mib = std::max(result.server_peak_rss_mib, after.rss_mib);
  shared.stop.store(true);
  result.wall_s = seconds_of(bench_now() - begun);
  result.server_cpu_s = after.cpu_s - before.cpu_s;
  result.client_cpu_s = own_cpu_seconds() - own_before;
  while (shared.running.load() > 0) {  // the last answers
    std::this_thread::sleep_for(kLookEvery);
    told(bench_now());
  }
  for (auto& thread : threads) thread.join();
  if (options.is_interrupted()) return fail(Errc::aborted, "interrupted");
  if (!last) return last.error();
  for (const auto& load : loads) {
    result.tally += load->tally();
    if (!load->trouble().context.empty()) return load->trouble();
  }
  return result;
}

}  // namespace penstock
