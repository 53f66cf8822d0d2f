// How often connections of this process to servers were made or have broken: who trusts what a
// server keeps in memory alone asks whether that server may have started anew since.
// Thread-safety: any thread. A break counts before anybody is told of it, a new connection before
// anybody can call on it.
#pragma once
#include <atomic>
#include <cstdint>

namespace penstock {

class ConnectionChanges {
 public:
  void add() { count_.fetch_add(1); }
  std::uint64_t count() const { return count_.load(); }

 private:
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace penstock
