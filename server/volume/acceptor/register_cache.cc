#include "server/volume/acceptor/register_cache.h"

#include <cstring>
#include <new>
#include <utility>

#include "penstock/assert.h"

namespace penstock {
namespace {
constexpr std::size_t kBucketsMin = 64;
}

RegisterCache::RegisterCache(std::size_t bytes_max)
    : bytes_max_(bytes_max),
      buckets_(kBucketsMin),
      rows_(Rows::bucket_traits(buckets_.data(), buckets_.size())) {}

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
  const auto found = rows_.find(Wanted{key, hash}, Hash{}, Equal{});
  if (found == rows_.end()) return nullptr;
  PENSTOCK_ASSERT(found->row != nullptr);
  if (!found->used)
    found->used = true;  // a line that nobody writes stays in all processors' caches
  return &found->row;
}

void RegisterCache::put(const RegisterKey& key, std::size_t hash, RowPtr row) {
  const std::size_t bytes = cost(key, *row);
  const Wanted wanted{key, hash};
  if (const auto found = rows_.find(wanted, Hash{}, Equal{}); found != rows_.end()) {
    bytes_ += bytes - found->bytes;
    found->row = std::move(row);
    found->bytes = static_cast<std::uint32_t>(bytes);
    found->used = true;
    make_room(0);
    return;
  }
  make_room(bytes);
  if (bytes > bytes_max_) return;
  grow();
  Entry* const entry = Entry::make(wanted);
  entry->row = std::move(row);
  entry->bytes = static_cast<std::uint32_t>(bytes);
  rows_.insert(*entry);
  order_.push_front(*entry);
  bytes_ += bytes;
  PENSTOCK_ASSERT(rows_.size() == order_.size());
}

void RegisterCache::offer(const RegisterKey& key, std::size_t hash, RowPtr row) {
  const bool has_room = bytes_ + cost(key, *row) <= bytes_max_;
  if (has_room || was_offered(hash)) put(key, hash, std::move(row));
}

// By bits of the hash that the buckets do not look at.
bool RegisterCache::was_offered(std::size_t hash) {
  offered_.resize(2 * buckets_.size());  // a power of two
  std::uint16_t& place = offered_[(hash >> 16) % offered_.size()];
  const auto own = static_cast<std::uint16_t>(hash >> 48);
  return std::exchange(place, own) == own;
}

void RegisterCache::make_room(std::size_t bytes) {
  while (bytes_ + bytes > bytes_max_ && !order_.empty()) {
    Entry& next = order_.back();
    if (!next.used) {
      drop(next);
    } else {
      next.used = false;
      order_.splice(order_.begin(), order_, order_.iterator_to(next));
    }
  }
}

void RegisterCache::erase(const RegisterKey& key, std::size_t hash) {
  const auto found = rows_.find(Wanted{key, hash}, Hash{}, Equal{});
  if (found != rows_.end()) drop(*found);
}

void RegisterCache::drop(Entry& entry) {
  PENSTOCK_ASSERT(bytes_ >= entry.bytes);
  bytes_ -= entry.bytes;
  rows_.erase(rows_.iterator_to(entry));
  order_.erase(order_.iterator_to(entry));
  Entry::destroy(&entry);
}

// Before one more entry.
void RegisterCache::grow() {
  if (rows_.size() < buckets_.size()) return;
  std::vector<Rows::bucket_type> more(2 * buckets_.size());
  rows_.rehash(Rows::bucket_traits(more.data(), more.size()));
  buckets_.swap(more);
}

}  // namespace penstock
