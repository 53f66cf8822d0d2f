// What the HTTP server ended before any service saw a request, counted by reason: it is not in the
// counts per operation, and an operator has to see it. Thread-safety: any thread.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace penstock {

enum class HttpRefusal : std::uint8_t {
  too_many_connections,  // turned away with a 503
  accept_failed,         // the system gave no socket, e.g. for want of descriptors
  malformed_head,
  head_too_large,
  head_timeout,
  too_many_of_address,  // turned away with a 503
  evicted_idle,         // closed for a new connection at the bound
  evicted_paused,
  no_memory,  // for a long head
};
inline constexpr std::array<std::string_view, 9> kHttpRefusalNames{
    "too_many_connections", "accept_failed", "malformed_head", "head_too_large", "head_timeout",
    "too_many_of_address",  "evicted_idle",  "evicted_paused", "no_memory"};

class HttpRefusals {
 public:
  void count(HttpRefusal reason) { ++counts_[static_cast<std::size_t>(reason)]; }
  std::uint64_t count_of(HttpRefusal reason) const {
    return counts_[static_cast<std::size_t>(reason)];
  }

 private:
  std::array<std::atomic<std::uint64_t>, kHttpRefusalNames.size()> counts_{};
};

}  // namespace penstock
