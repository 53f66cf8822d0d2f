#include "server/volume/acceptor/register_cache.h"

#include "penstock/assert.h"

namespace penstock {

const RowPtr* RegisterCache::find(const RegisterKey& key) {
  const auto found = rows_.find(&key);
  if (found == rows_.end()) return nullptr;
  PENSTOCK_ASSERT(found->second->row != nullptr);
  order_.splice(order_.begin(), order_, found->second);
  return &found->second->row;
}

void RegisterCache::put(const RegisterKey& key, RowPtr row) {
  const std::size_t bytes = row->bytes() + key.key.size() + key.upload_id.size();
  if (const auto found = rows_.find(&key); found != rows_.end()) {
    Entry& entry = *found->second;
    bytes_ += bytes - entry.bytes;
    entry.row = std::move(row);
    entry.bytes = bytes;
    order_.splice(order_.begin(), order_, found->second);
  } else {
    order_.push_front(Entry{key, std::move(row), bytes});
    rows_.emplace(&order_.front().key, order_.begin());
    bytes_ += bytes;
  }
  PENSTOCK_ASSERT(rows_.size() == order_.size());
  while (bytes_ > bytes_max_ && !order_.empty()) drop(std::prev(order_.end()));
}

void RegisterCache::erase(const RegisterKey& key) {
  if (const auto found = rows_.find(&key); found != rows_.end()) drop(found->second);
}

void RegisterCache::drop(Order::iterator entry) {
  PENSTOCK_ASSERT(bytes_ >= entry->bytes);
  bytes_ -= entry->bytes;
  rows_.erase(&entry->key);
  order_.erase(entry);
}

}  // namespace penstock
