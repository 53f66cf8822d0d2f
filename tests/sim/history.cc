#include "tests/sim/history.h"

#include <algorithm>

#include "tests/sim/sim_body.h"

namespace penstock::sim {

Value History::new_write(const std::string& key, std::uint64_t length) {
  const auto number = static_cast<Value>(writes_.size() + 1);
  const Segment all{number, 0, length};
  writes_.push_back(Write{key, length, quoted(hex_md5(body_of(number, 0, length))), {all}});
  return number;
}

Value History::copied_write(const std::string& key, std::vector<Segment> segments,
                            std::string etag) {
  if (const Value known = by_etag(key, etag); known != 0) return known;
  Write write{key, 0, std::move(etag), std::move(segments)};
  for (const Segment& segment : write.segments) write.length += segment.length;
  writes_.push_back(std::move(write));
  return static_cast<Value>(writes_.size());
}

std::vector<History::Segment> History::range_of(Value number, std::uint64_t offset,
                                                std::uint64_t length) const {
  std::vector<Segment> found;
  std::uint64_t at = 0;
  for (const Segment& segment : write(number).segments) {
    const std::uint64_t from = std::max(at, offset);
    const std::uint64_t to = std::min(at + segment.length, offset + length);
    if (from < to) found.push_back({segment.stream, segment.offset + (from - at), to - from});
    at += segment.length;
  }
  return found;
}

std::string History::body(Value number, std::uint64_t offset, std::uint64_t length) const {
  std::string bytes;
  for (const Segment& segment : range_of(number, offset, length)) {
    bytes += body_of(segment.stream, segment.offset, segment.length);
  }
  return bytes;
}

Value History::by_etag(const std::string& key, const std::string& etag) const {
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if (writes_[i].key == key && writes_[i].etag == etag) return static_cast<Value>(i + 1);
  }
  return 0;
}

bool History::has_empty_write(const std::string& key) const {
  return std::any_of(writes_.begin(), writes_.end(),
                     [&key](const Write& write) { return write.key == key && write.length == 0; });
}

std::vector<std::string> History::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, operations] : operations_) keys.push_back(key);
  return keys;
}

std::size_t History::operation_count() const {
  std::size_t count = listings_.size() + of_bucket_.size();
  for (const auto& [key, operations] : operations_) count += operations.size();
  return count;
}

void History::add(const std::string& key, const Operation& operation, Value turn) {
  add(key, operation);
  if (operation.outcome == Operation::Outcome::refused) return;
  Operation headers = operation;
  headers.value = operation.value == kNoBucket ? kNoBucket : turn;
  headers.condition = Operation::Condition::none;
  of_turns_[key].push_back(headers);
}

bool History::Listing::covers(const std::string& key) const {
  const auto hides = [&key](const std::string& hidden) { return key.starts_with(hidden); };
  return key.starts_with(prefix) && key > after &&
         std::none_of(prefixes.begin(), prefixes.end(), hides);
}

// A LIST is a read of every key: each may be judged alone as a read between the LIST's call and
// answer.
void History::check_listing(const Listing& listing) {
  for (const auto& [key, listed] : listing.seen) {
    const Value number = by_etag(key, listed.etag);
    add(key, Dated{listing.call, listing.answer, listed.second});
    if (number == 0) {
      violations_.push_back("LIST shows " + key + " with ETag " + listed.etag +
                            " that nobody wrote");
    } else if (write(number).length != listed.length) {
      violations_.push_back("LIST shows " + key + " with " + std::to_string(listed.length) +
                            " bytes, not " + std::to_string(write(number).length));
    }
  }
  for (auto& [key, operations] : operations_) {
    if (!listing.covers(key)) continue;
    const auto seen = listing.seen.find(key);
    Operation read;
    read.kind = Operation::Kind::read;
    read.value = seen == listing.seen.end() ? 0 : by_etag(key, seen->second.etag);
    read.call = listing.call;
    read.answer = listing.answer;
    operations.push_back(read);
  }
}

void History::judge(const std::string& what, std::vector<Operation> operations) {
  operations.insert(operations.end(), of_bucket_.begin(), of_bucket_.end());
  const auto report = check_linearizable(operations);
  if (!report) return;
  if (*report == kTooManyOpen) {
    ++unjudged_;
  } else {
    violations_.push_back(what + ": " + *report);
  }
}

void History::check_dates(const std::string& key) {
  const auto& operations = operations_[key];
  const auto deletes = [](const Operation& operation) {
    return operation.kind == Operation::Kind::write &&
           (operation.value == 0 || operation.value == kNoBucket);
  };
  if (std::any_of(operations.begin(), operations.end(), deletes) ||
      std::any_of(of_bucket_.begin(), of_bucket_.end(), deletes)) {
    return;
  }
  for (const Dated& later : dated_[key]) {
    for (const Dated& earlier : dated_[key]) {
      if (earlier.answer >= later.call || earlier.second <= later.second) continue;
      violations_.push_back("Last-Modified of " + key + " went back from " + earlier.second +
                            " to " + later.second);
      return;
    }
  }
}

std::vector<std::string> History::check() {
  for (const auto& listing : listings_) check_listing(listing);
  for (const auto& [key, operations] : operations_) judge("key " + key, operations);
  for (const auto& [key, operations] : of_turns_) {
    if (!turns_lost_.contains(key)) judge("headers of key " + key, operations);
  }
  for (const auto& [key, dated] : dated_) check_dates(key);
  return violations_;
}

}  // namespace penstock::sim
