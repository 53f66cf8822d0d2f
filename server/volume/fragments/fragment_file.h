// An open file that holds fragments: a segment, or one large fragment. Adds the sync that many
// share.
//
// Thread-safety: all methods from any thread.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "penstock/async.h"
#include "server/volume/disk/disk.h"
#include "server/volume/disk/pending_calls.h"

namespace penstock {

// Shared by the segment set, handles in the cache, writers and pieces on their way out.
class FragmentFile : public std::enable_shared_from_this<FragmentFile> {
 public:
  explicit FragmentFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
  File& file() const { return *file_; }

  // Calls, on the worker, `first`, and if that returns true `done` with the result of a sync that
  // began after it. Whoever waits when a sync begins is served by it.
  using First = std::function<bool()>;
  using Done = std::function<void(const Result<>& result)>;
  void sync_soon(Worker& worker, First first, Done done);

 private:
  void sync_once(Worker& worker);

  std::unique_ptr<File> file_;
  std::mutex mutex_;
  struct Waiting {
    First first;
    Done done;
  };
  std::vector<Waiting> waiting_;
  bool syncing_ = false;  // a job is queued or runs
};

// A result that a worker sets and one coroutine awaits, in either order; lets a coroutine start two
// things and wait for both. Shared by the two.
class Outcome {
 public:
  void set(Result<> result);
  static Task<> wait(std::shared_ptr<Outcome> outcome, std::shared_ptr<PendingCalls> pending);

 private:
  std::mutex mutex_;
  std::optional<Result<>> result_;
  std::optional<Completion<void>> waiter_;
};

}  // namespace penstock
