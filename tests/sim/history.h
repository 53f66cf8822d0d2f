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
  // Numbers writes from 1; remembers what each write's object must look like.
  struct Write {
    std::string key;
    std::uint64_t length = 0;
    std::string etag;  // with quotes, as answered; multipart ETags are learned at the answer
  };
  Value new_write(std::string key, std::uint64_t length, std::string etag);
  Write& write(Value number) { return writes_.at(number - 1); }
  // The write of `key` whose ETag this is; 0 if none is known.
  Value by_etag(const std::string& key, const std::string& etag) const;

  void add(const std::string& key, Operation operation) { operations_[key].push_back(operation); }
  void violation(std::string text) { violations_.push_back(std::move(text)); }

  // One LIST: names seen with their ETags, between two moments.
  struct Listing {
    SimMicros call = 0;
    SimMicros answer = 0;
    std::map<std::string, std::string> seen;
  };
  void add(Listing listing) { listings_.push_back(std::move(listing)); }

  // All violations, those of the checkers included.
  std::vector<std::string> check();
  std::size_t operation_count() const;

 private:
  void check_listing(const Listing& listing);
  std::vector<Write> writes_;
  std::map<std::string, std::vector<Operation>> operations_;
  std::vector<Listing> listings_;
  std::vector<std::string> violations_;
};

}  // namespace penstock::sim
