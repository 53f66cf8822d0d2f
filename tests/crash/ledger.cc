#include "tests/crash/ledger.h"

#include <algorithm>

namespace penstock::crash {

std::string to_string(const Name& name) { return name.bucket + "/" + name.key; }

Ledger::Ledger() : contents_(2) {}

Ledger::Value Ledger::add(Content content) {
  contents_.push_back(std::move(content));
  return contents_.size() - 1;
}

void Ledger::begin(const Name& name, Value value) { entries_[name].unknown.push_back(value); }

void Ledger::end(const Name& name, Value value, Outcome outcome) {
  if (outcome == Outcome::unknown) return;
  Entry& entry = entries_[name];
  const auto found = std::find(entry.unknown.rbegin(), entry.unknown.rend(), value);
  if (found != entry.unknown.rend()) entry.unknown.erase(std::next(found).base());
  if (outcome == Outcome::applied) entry.acknowledged = value;
}

Ledger::Entry Ledger::entry(const Name& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? Entry{} : found->second;
}

std::vector<Ledger::Value> Ledger::allowed(const Name& name) const {
  Entry found = entry(name);
  found.unknown.push_back(found.acknowledged);
  return found.unknown;
}

}  // namespace penstock::crash
