// What the clients of one world did and saw, and what must be true of it.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/linearizability.h"
#include "tests/sim/sim_time.h"

namespace penstock::sim {

class History {
 public:
  // A range of the bytes that belong to one write alone (body_of).
  struct Segment {
    Value stream = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };
  // Writes are numbered from 1. Within a key two writes of the same bytes and ETag have one number.
  struct Write {
    std::string key;
    std::uint64_t length = 0;
    std::string etag;  // with quotes, as answered
    std::vector<Segment> segments;
  };
  // A write of fresh bytes; its ETag is that of a plain PUT until set_etag().
  Value new_write(const std::string& key, std::uint64_t length);
  // Bytes that other writes made, as a copy has; `etag` with quotes.
  Value copied_write(const std::string& key, std::vector<Segment> segments, std::string etag);
  const Write& write(Value number) const { return writes_.at(number - 1); }
  void set_etag(Value number, std::string etag) { writes_.at(number - 1).etag = std::move(etag); }
  // [offset, offset + length) of the write's bytes, cut off at its end.
  std::string body(Value number, std::uint64_t offset = 0,
                   std::uint64_t length = ~std::uint64_t{0} >> 1) const;
  std::vector<Segment> range_of(Value number, std::uint64_t offset, std::uint64_t length) const;
  // The write of `key` whose ETag this is; 0 if none is known.
  Value by_etag(const std::string& key, const std::string& etag) const;
  bool has_empty_write(const std::string& key) const;

  void add(const std::string& key, Operation operation) { operations_[key].push_back(operation); }
  // The same, and which headers of its own the write sent or the read saw: a turn, 0 = absent.
  // They are judged beside the bytes: a copy onto itself keeps these and changes those.
  Value new_turn() { return ++turns_; }
  void add(const std::string& key, const Operation& operation, Value turn);
  // Something wrote headers to the key that nobody can tell.
  void lose_turns(const std::string& key) { turns_lost_.insert(key); }
  // Last-Modified as it was seen between two moments, to the second: it never goes back while the
  // object is there.
  struct Dated {
    SimMicros call = 0;
    SimMicros answer = 0;
    std::string second;  // "2026-01-31T12:00:00"
  };
  void add(const std::string& key, Dated dated) { dated_[key].push_back(std::move(dated)); }
  // An operation on the bucket acts on each of its keys.
  void add_to_all(Operation operation) { of_bucket_.push_back(operation); }
  void violation(std::string text) { violations_.push_back(std::move(text)); }

  // When all faults are over: a key that cannot be read, and why. Not a violation by itself, since
  // more of its fragments may be gone than the layout bears.
  void unreadable(const std::string& key, std::string why) { unreadable_[key] = std::move(why); }
  const std::map<std::string, std::string>& unreadable() const { return unreadable_; }

  // One LIST: names seen, between two moments.
  struct Listed {
    std::string etag;
    std::uint64_t length = 0;
    std::string second;  // of its Last-Modified
  };
  struct Listing {
    SimMicros call = 0;
    SimMicros answer = 0;
    std::string prefix;
    std::string after;               // nothing up to here was asked for
    std::set<std::string> prefixes;  // keys under these are not shown
    std::map<std::string, Listed> seen;
    bool covers(const std::string& key) const;
  };
  void add(Listing listing) { listings_.push_back(std::move(listing)); }

  // The keys that anything was done to.
  std::vector<std::string> keys() const;
  // All violations, those of the checkers included. Once.
  std::vector<std::string> check();
  // Keys with more operations of unknown outcome than the checker can bear. After check().
  std::size_t unjudged() const { return unjudged_; }
  bool clean() const { return violations_.empty(); }
  std::size_t operation_count() const;

 private:
  void check_listing(const Listing& listing);
  void judge(const std::string& what, std::vector<Operation> operations);
  void check_dates(const std::string& key);
  std::vector<Write> writes_;
  std::map<std::string, std::vector<Operation>> operations_;
  std::map<std::string, std::vector<Operation>> of_turns_;
  std::set<std::string> turns_lost_;
  Value turns_ = 0;
  std::map<std::string, std::vector<Dated>> dated_;
  std::vector<Operation> of_bucket_;
  std::vector<Listing> listings_;
  std::map<std::string, std::string> unreadable_;
  std::vector<std::string> violations_;
  std::size_t unjudged_ = 0;
};

}  // namespace penstock::sim
