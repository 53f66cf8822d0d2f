// The registers of one volume that were used last, bounded by bytes: least recently used go first.
// Holds synced rows only, absent ones included. Thread-safety: none; the register store locks.
#pragma once
#include <list>
#include <unordered_map>

#include "server/volume/acceptor/register_row.h"

namespace penstock {

class RegisterCache {
 public:
  explicit RegisterCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}
  // Null if it is not here. The pointer stays valid until the next change. Cost: a hash of the key,
  // one comparison; no allocation.
  const RowPtr* find(const RegisterKey& key);
  void put(const RegisterKey& key, RowPtr row);
  void erase(const RegisterKey& key);
  std::size_t bytes() const { return bytes_; }
  std::size_t size() const { return rows_.size(); }

 private:
  struct Entry {
    RegisterKey key;
    RowPtr row;
    std::size_t bytes = 0;
  };
  using Order = std::list<Entry>;  // most recently used first
  struct Hash {
    std::size_t operator()(const RegisterKey* key) const noexcept {
      return RegisterKeyHash{}(*key);
    }
  };
  struct Equal {
    bool operator()(const RegisterKey* a, const RegisterKey* b) const { return *a == *b; }
  };
  void drop(Order::iterator entry);

  const std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  Order order_;
  std::unordered_map<const RegisterKey*, Order::iterator, Hash, Equal> rows_;  // keys in order_
};

}  // namespace penstock
