#include "server/volume/fragments/fragment_cache.h"

namespace penstock {

FragmentHolds::Hold::~Hold() {
  {
    std::lock_guard lock(holds_->mutex_);
    const auto found = holds_->holds_.find(id_);
    // The entry may already be that of a younger hold.
    if (found != holds_->holds_.end() && found->second.expired()) holds_->holds_.erase(found);
  }
  for (const ExtentSpan& span : spans_) holds_->release_(span);
}

std::shared_ptr<FragmentHolds::Hold> FragmentHolds::acquire(const FragmentId& id) {
  std::lock_guard lock(mutex_);
  auto& entry = holds_[id];
  auto hold = entry.lock();
  if (hold == nullptr) {
    hold = std::make_shared<Hold>(shared_from_this(), id);
    entry = hold;
  }
  return hold;
}

void FragmentHolds::retire(const FragmentId& id, std::optional<ExtentSpan> span) {
  std::shared_ptr<Hold> hold;  // outlives the lock: it may turn out to be the last reference
  {
    std::lock_guard lock(mutex_);
    if (const auto found = holds_.find(id); found != holds_.end()) {
      hold = found->second.lock();
      holds_.erase(found);
    }
    if (hold != nullptr) {
      hold->retired_ = true;
      if (span) hold->spans_.push_back(*span);
    }
  }
  if (hold == nullptr && span) release_(*span);
}

FragmentHandlePtr FragmentCache::find(const FragmentId& id) {
  const CountedLock lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  List& list = recent_[is_file(**found->second) ? 1 : 0];
  list.splice(list.begin(), list, found->second);
  return *found->second;
}

void FragmentCache::insert(FragmentHandlePtr handle) {
  List evicted;
  const CountedLock lock(mutex_);
  if (handle->hold->is_retired()) return;
  if (const auto found = by_id_.find(handle->id); found != by_id_.end()) {
    drop(found->second, evicted);
  }
  bytes_ += cost(*handle);
  List& list = recent_[is_file(*handle) ? 1 : 0];
  list.push_front(std::move(handle));
  by_id_[list.front()->id] = list.begin();
  while (recent_[1].size() > files_max_) drop(std::prev(recent_[1].end()), evicted);
  // Extents go first: they are many and cheap to load again; the newest entry always stays.
  for (List* victims : {&recent_[0], &recent_[1]}) {
    while (bytes_ > bytes_max_ && victims->size() > (victims == &list ? 1u : 0u)) {
      drop(std::prev(victims->end()), evicted);
    }
  }
}

void FragmentCache::erase(const FragmentId& id) {
  List evicted;
  const CountedLock lock(mutex_);
  if (const auto found = by_id_.find(id); found != by_id_.end()) drop(found->second, evicted);
}

std::size_t FragmentCache::bytes() const {
  const CountedLock lock(mutex_);
  return bytes_;
}

std::size_t FragmentCache::cost(const FragmentHandle& handle) {
  constexpr std::size_t kNodes = 128;  // list, map and allocator overhead
  return sizeof handle + kNodes + handle.table.size() * sizeof(std::uint32_t);
}

void FragmentCache::drop(List::iterator at, List& evicted) {
  List& list = recent_[is_file(**at) ? 1 : 0];
  bytes_ -= cost(**at);
  by_id_.erase((*at)->id);
  evicted.splice(evicted.begin(), list, at);
}

}  // namespace penstock
