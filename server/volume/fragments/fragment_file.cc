#include "server/volume/fragments/fragment_file.h"

#include <utility>

#include "penstock/caught.h"

namespace penstock {
namespace {

// One that throws takes none of the others with it.
template <class Call>
bool guarded(const Call& call) {
  try {
    return call();
  } catch (...) {
    report_exception("a sync of a fragment");
    return false;
  }
}

}  // namespace

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
  std::erase_if(served, [](const Waiting& one) { return !guarded(one.first); });
  const Result<> result = served.empty() ? Result<>() : file_->sync();
  for (const Waiting& one : served) {
    guarded([&] {
      one.done(result);
      return true;
    });
  }
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
