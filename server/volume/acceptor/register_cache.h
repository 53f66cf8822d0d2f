// The registers of one volume that were used last, bounded by bytes. Holds synced rows only, absent
// ones included. Thread-safety: none; who holds one locks.
//
// A GET looks into one volume or three, and what it looks at is seldom in a processor's cache: so
// an entry has its links, its hash and the text of its key in one block of memory; only entries
// with the same eight bits of hash are looked at, and seldom one if the key is not here; and to
// find one writes nothing but, once, that it was used (CLOCK; Corbato, 1968). Whoever makes room
// goes over all in turn, oldest first: what was used since stays for another turn, the rest goes.
//
// A row that was only read finds its place by being read twice (the doorkeeper of TinyLFU;
// Einziger, 2017), and only if the row whose turn is next was not used since: an epoch over a
// million keys would else push out all that is read again, and each of its reads would make room
// for a row that nobody asks for before it is gone.
#pragma once
#include <boost/intrusive/list.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <vector>

#include "server/volume/acceptor/register_row.h"

namespace penstock {

class RegisterCache {
 public:
  explicit RegisterCache(std::size_t bytes_max);
  ~RegisterCache();
  // `hash`, here and below: the key's. Null if it is not here. The pointer stays valid until the
  // next change. Cost: one comparison; no allocation.
  const RowPtr* find(const RegisterKey& key, std::size_t hash);
  void put(const RegisterKey& key, std::size_t hash, RowPtr row);
  // The same of a row that was read: without room for it only if it was offered lately, among about
  // twice as many rows as are here, and then in place of the row whose turn is next: if that was
  // used, its turn ends, and nothing comes. So where all rows were used and nobody reads them any
  // more, one that is read again and again comes in after as many reads as there are rows, at most.
  void offer(const RegisterKey& key, std::size_t hash, RowPtr row);
  void erase(const RegisterKey& key, std::size_t hash);
  std::size_t bytes() const { return bytes_; }
  std::size_t size() const { return rows_.size(); }

 private:
  using Links =
      boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;
  using Identity =
      std::tuple<std::size_t, BucketId, RowKind, std::uint16_t, std::string_view, std::string_view>;
  struct Wanted {
    const RegisterKey& key;
    std::size_t hash;
    Identity identity() const {
      return {hash, key.bucket, key.kind, key.part, key.key, key.upload_id};
    }
  };
  // The texts of its key and upload-id lie behind it.
  struct Entry : Links {
    std::size_t hash = 0;
    RowPtr row;
    BucketId bucket;
    std::uint32_t bytes = 0;
    std::uint32_t key_bytes = 0, upload_id_bytes = 0;
    std::uint16_t part = 0;
    RowKind kind = RowKind::object;
    bool used = false;  // since it came, or its last turn

    static Entry* make(const Wanted& of);
    static void destroy(Entry* entry);
    Identity identity() const {
      const char* const text = reinterpret_cast<const char*>(this + 1);
      return {hash, bucket, kind, part, {text, key_bytes}, {text + key_bytes, upload_id_bytes}};
    }
  };
  // Of entries and of what is looked for.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const Entry* of) const { return of->hash; }
    std::size_t operator()(const Wanted& of) const { return of.hash; }
  };
  struct Equal {
    using is_transparent = void;
    static Identity of(const Entry* entry) { return entry->identity(); }
    static Identity of(const Wanted& wanted) { return wanted.identity(); }
    template <class One, class Other>
    bool operator()(const One& one, const Other& other) const {
      return of(one) == of(other);
    }
  };
  using Order = boost::intrusive::list<Entry, boost::intrusive::base_hook<Links>>;
  using Rows = boost::unordered_flat_set<Entry*, Hash, Equal>;
  static std::size_t cost(const RegisterKey& key, const RegisterRow& row) {
    return row.bytes() + key.key.size() + key.upload_id.size();
  }
  bool was_offered(std::size_t hash);
  void drop(Entry& entry);
  bool end_turn();
  void make_room(std::size_t bytes);

  const std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  Rows rows_;
  Order order_;                         // whose turn is next is last; owns the entries
  std::vector<std::uint16_t> offered_;  // some bits of a hash each, at a place by others
};

}  // namespace penstock
