#include "server/node/process_base.h"

#include <boost/asio/co_spawn.hpp>

#include "penstock/caught.h"
#include "penstock/keep_running.h"

namespace penstock {
namespace {

constexpr ReportThrown report_end{"the return of idle memory"};
// A load takes and gives back most of its buffers many times in it.
constexpr Duration kTrimEvery = std::chrono::milliseconds(500);

// Ends with the I/O threads.
Awaitable<void> trim_buffers(BufferPool* buffers, Clock* clock) {
  while (true) {
    co_await clock->sleep_until(next_whole(clock->boot(), kTrimEvery));
    buffers->trim();
  }
}

}  // namespace

ProcessBase::ProcessBase(const ProcessOptions& options)
    : buffers(options.idle_buffer_bytes),
      budget(options.memory_budget_bytes, MemoryBudget::floors_of(options.memory_budget_bytes)),
      io(options.io_threads) {
  const auto trim = [this] { return trim_buffers(&buffers, &clock); };
  boost::asio::co_spawn(io.at(0), keep_running(clock, report_end.where, trim), report_end);
}

}  // namespace penstock
