#include "server/volume/fragments/fragment_file.h"

#include <utility>

namespace penstock {

void FragmentFile::sync_soon(Worker& worker, First first, Done done) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(first), std::move(done)});
    if (std::exchange(syncing_, true)) return;
  }
  worker.submit([self = shared_from_this(), &worker] { self->sync_once(worker); });
}

void FragmentFile::sync_once(Worker& worker) {
  std::vector<Waiting> served;
  {
    std::lock_guard lock(mutex_);
    served.swap(waiting_);
  }
  std::erase_if(served, [](const Waiting& one) { return !one.first(); });
  const Result<> result = served.empty() ? Result<>() : file_->sync();
  for (const Waiting& one : served) one.done(result);
  {
    std::lock_guard lock(mutex_);
    if (waiting_.empty()) {
      syncing_ = false;
      return;
    }
  }
  worker.submit([self = shared_from_this(), &worker] { self->sync_once(worker); });
}

void Outcome::set(Result<> result) {
  std::optional<Completion<void>> waiter;
  {
    std::lock_guard lock(mutex_);
    if (!waiter_) {
      result_ = std::move(result);
      return;
    }
    waiter = std::exchange(waiter_, std::nullopt);
  }
  (*waiter)(std::move(result));
}

Task<> Outcome::wait(std::shared_ptr<Outcome> outcome, std::shared_ptr<PendingCalls> pending) {
  auto start = [outcome = std::move(outcome)](Completion<void> done) {
    std::optional<Result<>> result;
    {
      std::lock_guard lock(outcome->mutex_);
      if (!outcome->result_) {
        outcome->waiter_ = std::move(done);
        return;
      }
      result = outcome->result_;
    }
    done(std::move(*result));
  };
  return pending->wait<void>(std::move(start));
}

}  // namespace penstock
