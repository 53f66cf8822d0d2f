#include "tests/sim/history.h"

#include <algorithm>

namespace penstock::sim {

Value History::new_write(std::string key, std::uint64_t length, std::string etag) {
  writes_.push_back(Write{std::move(key), length, std::move(etag)});
  return static_cast<Value>(writes_.size());
}

Value History::by_etag(const std::string& key, const std::string& etag) const {
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if (writes_[i].key == key && writes_[i].etag == etag) return static_cast<Value>(i + 1);
  }
  return 0;
}

std::size_t History::operation_count() const {
  std::size_t count = listings_.size();
  for (const auto& [key, operations] : operations_) count += operations.size();
  return count;
}

// A LIST is a read of every key: each may be judged alone as a read between the LIST's call and
// answer.
void History::check_listing(const Listing& listing) {
  for (const auto& [key, etag] : listing.seen) {
    if (by_etag(key, etag) == 0)
      violations_.push_back("LIST shows " + key + " with ETag " + etag + " that nobody wrote");
  }
  for (auto& [key, operations] : operations_) {
    const auto seen = listing.seen.find(key);
    Operation read;
    read.kind = Operation::Kind::read;
    read.value = seen == listing.seen.end() ? 0 : by_etag(key, seen->second);
    read.call = listing.call;
    read.answer = listing.answer;
    operations.push_back(read);
  }
}

std::vector<std::string> History::check() {
  for (const auto& listing : listings_) check_listing(listing);
  for (const auto& [key, operations] : operations_) {
    if (auto report = check_linearizable(operations))
      violations_.push_back("key " + key + ": " + *report);
  }
  return violations_;
}

}  // namespace penstock::sim
