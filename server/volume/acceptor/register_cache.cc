#include "server/volume/acceptor/register_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "penstock/assert.h"

namespace penstock {
namespace {
constexpr std::size_t kOfferedMin = 64;
}

RegisterCache::RegisterCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

RegisterCache::~RegisterCache() {
  while (!order_.empty()) drop(order_.back());
}

RegisterCache::Entry* RegisterCache::Entry::make(const Wanted& of) {
  const RegisterKey& key = of.key;
  void* const memory = ::operator new(sizeof(Entry) + key.key.size() + key.upload_id.size());
  auto* const entry = new (memory) Entry;
  entry->hash = of.hash;
  entry->bucket = key.bucket;
  entry->key_bytes = static_cast<std::uint32_t>(key.key.size());
  entry->upload_id_bytes = static_cast<std::uint32_t>(key.upload_id.size());
  entry->part = key.part;
  entry->kind = key.kind;
  char* const text = reinterpret_cast<char*>(entry + 1);
  std::memcpy(text, key.key.data(), key.key.size());
  std::memcpy(text + key.key.size(), key.upload_id.data(), key.upload_id.size());
  return entry;
}

void RegisterCache::Entry::destroy(Entry* entry) {
  entry->~Entry();
  ::operator delete(entry);
}

const RowPtr* RegisterCache::find(const RegisterKey& key, std::size_t hash) {
  const auto found = rows_.find(Wanted{key, hash});
  if (found == rows_.end()) return nullptr;
  Entry& entry = **found;
  PENSTOCK_ASSERT(entry.row != nullptr);
  if (!entry.used) entry.used = true;  // a line that nobody writes stays in all processors' caches
  return &entry.row;
}

void RegisterCache::put(const RegisterKey& key, std::size_t hash, RowPtr row) {
  const std::size_t bytes = cost(key, *row);
  const Wanted wanted{key, hash};
  if (const auto found = rows_.find(wanted); found != rows_.end()) {
    Entry& entry = **found;
    bytes_ += bytes - entry.bytes;
    entry.row = std::move(row);
    entry.bytes = static_cast<std::uint32_t>(bytes);
    entry.used = true;
    make_room(0);
    return;
  }
  make_room(bytes);
  if (bytes > bytes_max_) return;
  std::unique_ptr<Entry, void (*)(Entry*)> entry(Entry::make(wanted), &Entry::destroy);
  entry->row = std::move(row);
  entry->bytes = static_cast<std::uint32_t>(bytes);
  rows_.insert(entry.get());  // may throw, the others do not
  order_.push_front(*entry.release());
  bytes_ += bytes;
  PENSTOCK_ASSERT(rows_.size() == order_.size());
}

void RegisterCache::offer(const RegisterKey& key, std::size_t hash, RowPtr row) {
  const bool has_room = bytes_ + cost(key, *row) <= bytes_max_;
  if (has_room || (was_offered(hash) && end_turn())) put(key, hash, std::move(row));
}

// By bits of the hash that the choice of a part does not look at.
bool RegisterCache::was_offered(std::size_t hash) {
  const std::size_t places = std::max(kOfferedMin, 2 * std::bit_ceil(rows_.size()));
  if (places > offered_.size()) offered_.resize(places);
  std::uint16_t& place = offered_[(hash >> 16) % offered_.size()];
  const auto own = static_cast<std::uint16_t>(hash >> 48);
  return std::exchange(place, own) == own;
}

// Of the row whose turn is next. False: it was used, and stays for another.
bool RegisterCache::end_turn() {
  if (order_.empty()) return true;
  Entry& next = order_.back();
  if (!next.used) return true;
  next.used = false;
  order_.splice(order_.begin(), order_, order_.iterator_to(next));
  return false;
}

void RegisterCache::make_room(std::size_t bytes) {
  while (bytes_ + bytes > bytes_max_ && !order_.empty()) {
    if (end_turn()) drop(order_.back());
  }
}

void RegisterCache::erase(const RegisterKey& key, std::size_t hash) {
  const auto found = rows_.find(Wanted{key, hash});
  if (found != rows_.end()) drop(**found);
}

void RegisterCache::drop(Entry& entry) {
  PENSTOCK_ASSERT(bytes_ >= entry.bytes);
  bytes_ -= entry.bytes;
  rows_.erase(&entry);
  order_.erase(order_.iterator_to(entry));
  Entry::destroy(&entry);
}

}  // namespace penstock
