#include "server/volume/disk/pending_calls.h"

namespace penstock {

bool PendingCalls::Ticket::enter(std::shared_ptr<PendingCalls> calls, Entry entry) {
  std::optional<Error> closed;
  {
    std::lock_guard lock(calls->mutex_);
    closed = calls->closed_;
    if (!closed) at_ = calls->entries_.insert(calls->entries_.end(), std::move(entry));
  }
  if (closed) {
    entry.answer(*closed);
    return false;
  }
  calls_ = std::move(calls);
  return true;
}

void PendingCalls::remove(Entries::iterator at) {
  Entries removed;  // destroyed without the lock
  std::lock_guard lock(mutex_);
  removed.splice(removed.end(), entries_, at);
}

void PendingCalls::close(const Error& why) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  closed_ = why;
  for (const Entry& entry : entries_) entry.answer(fail(entry.when_closed, why.context));
}

void PendingCalls::expire(BootTime now) {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.deadline >= now) continue;
    entry.answer(fail(Errc::timeout, "the volume did not answer in time"));
  }
}

void PendingCalls::give_up(const void* owner) {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.owner == owner) entry.answer(fail(Errc::timeout, "the call was given up"));
  }
}

std::size_t PendingCalls::count() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace penstock
