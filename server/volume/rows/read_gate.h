// Keeps I/O threads out of LevelDB while a call of it may hold its mutex and wait for the disk: an
// I/O thread that waited for that mutex would hang with the disk.
//
// LevelDB (1.23) does so in three places, and whoever makes one of these calls closes the gate
// around it, before LevelDB takes the mutex:
// - the begin of a compaction, which opens tables of level 0 (LevelDbEnv::Schedule);
// - a new iterator, which does the same (Database::scan);
// - opening and closing the database, when nobody else calls it.
// All else that LevelDB asks of our Env under its mutex is answered from memory: names of files, a
// new log, which keeps nothing, and the end of a file, which is closed later (LeftFiles).
// Thread-safety: all methods from any thread.
#pragma once
#include <atomic>
#include <thread>

#include "penstock/thread_parts.h"

namespace penstock {

class ReadGate {
 public:
  // One pass of an I/O thread. Never waits. False: the gate is closed.
  class Pass {
   public:
    explicit Pass(ReadGate& gate) : inside_(gate.inside_.mine()) {
      inside_.fetch_add(1);
      passed_ = gate.closings_.load() == 0;
      if (!passed_) inside_.fetch_sub(1);
    }
    ~Pass() {
      if (passed_) inside_.fetch_sub(1);
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    explicit operator bool() const { return passed_; }

   private:
    std::atomic<int>& inside_;
    bool passed_ = false;
  };

  // The gate is closed while any of these lives. Waits for those inside, who wait for no disk.
  // Pre: this thread is not inside, and does not hold LevelDB's mutex.
  class Closing {
   public:
    explicit Closing(ReadGate& gate) : gate_(gate) {
      gate_.closings_.fetch_add(1);
      gate_.inside_.all([](const std::atomic<int>& inside) {
        while (inside.load() != 0) std::this_thread::yield();
      });
    }
    ~Closing() { gate_.closings_.fetch_sub(1); }
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;

   private:
    ReadGate& gate_;
  };

  bool closed() const { return closings_.load() != 0; }

 private:
  ThreadParts<std::atomic<int>> inside_;  // of each thread: all I/O threads come by
  std::atomic<int> closings_{0};
};

}  // namespace penstock
