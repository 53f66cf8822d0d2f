// What clients were told: for each object and bucket the value that was acknowledged last, and the
// values of writes whose outcome nobody knows. This is what a power cut must not change.
//
// Writes to one object follow one another, so that one value is the last; different objects are
// written at the same time. Thread-safety: one thread.
#pragma once
#include <compare>
#include <map>
#include <string>
#include <vector>

namespace penstock::crash {

// An object, or with an empty key a bucket.
struct Name {
  std::string bucket;
  std::string key;
  auto operator<=>(const Name&) const = default;
};
std::string to_string(const Name& name);

struct Content {
  std::string bytes;
  std::string etag;  // with its quotes
};

struct Upload {
  Name object;
  std::string id;
  std::string bytes;      // of its only part, once that was acknowledged
  std::string part_etag;  // empty: no part was
  // busy: a call is under way, or its outcome is unknown.
  enum class State { open, busy, completed, aborted } state = State::open;
};

class Ledger {
 public:
  using Value = std::size_t;  // which content
  static constexpr Value kAbsent = 0;
  static constexpr Value kBucket = 1;  // of a bucket that exists

  Ledger();
  Value add(Content content);
  const Content& content(Value value) const { return contents_.at(value); }

  enum class Outcome { applied, refused, unknown };
  // A write of `value` is sent, and later answered.
  void begin(const Name& name, Value value);
  void end(const Name& name, Value value, Outcome outcome);

  struct Entry {
    Value acknowledged = kAbsent;
    std::vector<Value> unknown;
    bool certain() const { return unknown.empty(); }
  };
  Entry entry(const Name& name) const;
  const std::map<Name, Entry>& entries() const { return entries_; }
  // The values that `name` may show.
  std::vector<Value> allowed(const Name& name) const;

  std::vector<Upload>& uploads() { return uploads_; }
  const std::vector<Upload>& uploads() const { return uploads_; }

 private:
  std::vector<Content> contents_;
  std::map<Name, Entry> entries_;
  std::vector<Upload> uploads_;
};

}  // namespace penstock::crash
