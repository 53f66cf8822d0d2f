// What was counted of calls between processes: by operation and outcome, by kind of error, bytes,
// durations. One set for each link of a caller, and one for each I/O thread of a server.
//
// Cost: a handful of relaxed atomic additions a call; the caller's are touched by one thread alone.
// Thread-safety: any thread.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "penstock/latency.h"
#include "penstock/result.h"
#include "server/transport/wire.h"

namespace penstock {

// How a call ended. error: the volume answered one. unknown: it was sent, and no answer came.
// unsent: it did not leave.
enum class CallOutcome : std::uint8_t { ok, error, unknown, unsent };
inline constexpr std::array<std::string_view, 4> kCallOutcomeNames{"ok", "error", "unknown",
                                                                   "unsent"};

// What calls are told by in histograms: a histogram for each operation would be too many.
enum class CallKind : std::uint8_t { record, read, write, upkeep };
inline constexpr std::array<std::string_view, 4> kCallKindNames{"record", "read", "write",
                                                                "upkeep"};
CallKind kind_of(wire::Operation operation);

// The first one is for all that are not known.
inline constexpr std::size_t kOperations = static_cast<std::size_t>(wire::Operation::announce) + 1;
inline constexpr std::size_t kErrorCodes = static_cast<std::size_t>(Errc::epoch_behind) + 1;

struct CallCounts {
  std::array<std::array<std::uint64_t, kCallOutcomeNames.size()>, kOperations> calls{};
  std::array<std::uint64_t, kErrorCodes> errors{};
  std::array<LatencyHistogram::Counts, kCallKindNames.size()> durations{};
  std::uint64_t bytes_in = 0;  // of frames that came, and of those that were to leave
  std::uint64_t bytes_out = 0;
  std::uint64_t under_way = 0;
  CallCounts& operator+=(const CallCounts& other);
};

class CallCounters {
 public:
  void enter() { under_way_.fetch_add(1, std::memory_order_relaxed); }
  void leave() { under_way_.fetch_sub(1, std::memory_order_relaxed); }
  // A call that was begun has ended.
  void end(wire::Operation operation, CallOutcome outcome, std::optional<Errc> error,
           Duration took);
  // Of one that never began.
  void refuse(wire::Operation operation, Errc error);
  // Of a call whose end was counted before it was known.
  void add_error(Errc error);
  void add_bytes_in(std::size_t bytes) { bytes_in_.fetch_add(bytes, std::memory_order_relaxed); }
  void add_bytes_out(std::size_t bytes) { bytes_out_.fetch_add(bytes, std::memory_order_relaxed); }
  CallCounts counts() const;

 private:
  void count(wire::Operation operation, CallOutcome outcome, std::optional<Errc> error);

  using Outcomes = std::array<std::atomic<std::uint64_t>, kCallOutcomeNames.size()>;
  std::array<Outcomes, kOperations> calls_{};
  std::array<std::atomic<std::uint64_t>, kErrorCodes> errors_{};
  std::array<LatencyHistogram, kCallKindNames.size()> durations_;
  std::atomic<std::uint64_t> bytes_in_{0};
  std::atomic<std::uint64_t> bytes_out_{0};
  std::atomic<std::uint64_t> under_way_{0};
};

}  // namespace penstock
