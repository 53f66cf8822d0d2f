// What the clients of one world did and saw, and what must be true of it.
#pragma once
#include <map>
#include <string>
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
  };
  struct Listing {
    SimMicros call = 0;
    SimMicros answer = 0;
    std::string prefix;
    std::map<std::string, Listed> seen;
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
  std::vector<Write> writes_;
  std::map<std::string, std::vector<Operation>> operations_;
  std::vector<Operation> of_bucket_;
  std::vector<Listing> listings_;
  std::map<std::string, std::string> unreadable_;
  std::vector<std::string> violations_;
  std::size_t unjudged_ = 0;
};

}  // namespace penstock::sim
