// Reads, and scans. What is in memory, in the cache or in the pages of the database, is read on the
// caller's thread; the rest on the volume's read worker, beside the commits. Under load one hop to
// the worker serves all reads that wait. Scans queue as well, and run one after another: of the
// worker's two threads a scan, however long, leaves one to the reads.
// Thread-safety: all methods from any thread.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "penstock/async.h"
#include "server/volume/acceptor/register_core.h"

namespace penstock {

// One page of rows, for LIST. Blocks. Sees every row whose write was acknowledged before.
// A damaged row is in the page as `unreadable`.
// Errors: corrupt - blocks of the database cannot be read, so nothing can be said; invalid.
Result<ScanReply> scan_registers(Database& database, const ScanRequest& request);

class RegisterReader {
 public:
  RegisterReader(RegisterCore& core, Worker& worker) : core_(core), worker_(worker) {}

  // On this thread, without ever waiting for the disk; nullopt: ask with read().
  std::optional<Result<Accepted>> read_now(const ReadRequest& request);
  // Whether the row is at this ballot, from memory alone. False: ask for the row.
  bool holds_now(const ReadRequest& request, const Ballot& ballot);
  void read(std::shared_ptr<const ReadRequest> request, Deadline deadline,
            Completion<Accepted> done);
  // Answers `overloaded` when limits::kVolumeQueueMax of them wait; the same for reads.
  void scan(std::shared_ptr<const ScanRequest> request, Deadline deadline,
            Completion<ScanReply> done);
  // What is under way may never end: answers the reads and scans behind it with `why`.
  void abandon(const Error& why);

 private:
  struct ReadWork {
    std::shared_ptr<const ReadRequest> request;
    Deadline deadline;
    Completion<Accepted> done;
  };
  struct ScanWork {
    std::shared_ptr<const ScanRequest> request;
    Deadline deadline;
    Completion<ScanReply> done;
  };

  void run_reads();
  void run_scans();
  Result<Accepted> read_row(const ReadRequest& request);
  Result<Accepted> read_row_contained(const ReadRequest& request);
  Result<ScanReply> run_scan(const ScanRequest& request, Deadline deadline);
  Result<ScanReply> run_scan_contained(const ScanWork& work);

  RegisterCore& core_;
  Worker& worker_;
  std::mutex mutex_;  // guards all below
  std::deque<ReadWork> reads_;
  bool reading_ = false;
  std::deque<ScanWork> scans_;
  bool scanning_ = false;
};

}  // namespace penstock
