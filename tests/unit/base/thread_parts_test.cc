#include "penstock/thread_parts.h"

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "penstock/metrics.h"

namespace penstock {
namespace {

TEST_CASE("A thread keeps its part, threads beside it have others, and all() sees each") {
  ThreadParts<std::atomic<int>> parts;
  std::set<std::atomic<int>*> seen;
  for (std::size_t i = 0; i < ThreadParts<std::atomic<int>>::kParts; ++i) {
    std::thread([&] {
      std::atomic<int>& mine = parts.mine();
      CHECK(&mine == &parts.mine());
      ++mine;
      seen.insert(&mine);
    }).join();
  }
  CHECK(seen.size() == ThreadParts<std::atomic<int>>::kParts);
  int sum = 0;
  parts.all([&sum](const std::atomic<int>& part) { sum += part; });
  CHECK(sum == static_cast<int>(ThreadParts<std::atomic<int>>::kParts));
  for (std::atomic<int>* part : seen) CHECK(reinterpret_cast<std::uintptr_t>(part) % 64 == 0);
}

TEST_CASE("What many threads record is told as one sum") {
  Metrics metrics({"Get", "Put"}, {"NoSuchKey"});
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 16; ++t) {
      threads.emplace_back([&metrics] {
        for (int i = 0; i < 1'000; ++i) {
          Metrics::Outcome outcome;
          outcome.duration = Duration(50);
          outcome.bytes_out = 3;
          metrics.record(1, outcome);
        }
      });
    }
  }
  const std::string text = metrics.text();
  CHECK(text.find("penstock_requests_total{operation=\"Put\"} 16000") != std::string::npos);
  CHECK(text.find("penstock_response_bytes_total{operation=\"Put\"} 48000") != std::string::npos);
  CHECK(text.find("penstock_requests_total{operation=\"Get\"} 0") != std::string::npos);
}

}  // namespace
}  // namespace penstock
