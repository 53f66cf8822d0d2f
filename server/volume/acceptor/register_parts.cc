#include "server/volume/acceptor/register_parts.h"

#include <algorithm>
#include <utility>

#include "penstock/planted.h"

namespace penstock {

RegisterParts::RegisterParts(std::size_t cache_bytes, std::size_t ballot_bytes, std::uint64_t seed,
                             const RoundGate& gate) {
  const std::size_t parts = std::clamp<std::size_t>(cache_bytes / kPartBytesMin, 1, kPartsMax);
  const auto open = std::make_shared<const Gate>(Gate{gate, std::nullopt});
  for (std::size_t i = 0; i < parts; ++i) {
    parts_.push_back(std::make_unique<Part>(cache_bytes / parts, ballot_bytes / parts, seed, open));
  }
}

bool RegisterParts::Part::is_busy(const RegisterKey& key) const {
  return busy.contains(key) && holds(Rule::busy_key);
}

bool RegisterParts::Part::is_current(const RegisterKey& key, std::size_t hash, Stamp before) const {
  return !is_busy(key) && stamps[hash % kStampSlots] == before;
}

Result<RegisterParts::Kept> RegisterParts::find(const Round& round, const RegisterKey& key) {
  const Locked at(*this, key);
  CHECK_OK(at.part.check(round, key.bucket));
  return at.part.find(key, at.hash);
}

Result<bool> RegisterParts::holds_ballot(const Round& round, const RegisterKey& key,
                                         const Ballot& ballot) {
  const Locked at(*this, key);
  CHECK_OK(at.part.check(round, key.bucket));
  return at.part.ballots.holds(at.hash, ballot);
}

Result<> RegisterParts::pass(const Round& round, const RegisterKey& key, RowPtr row, Stamp before) {
  const Locked at(*this, key);
  CHECK_OK(at.part.check(round, key.bucket));
  if (row != nullptr && at.part.is_current(key, at.hash, before)) {
    at.part.ballots.put(at.hash, row->ballot);
    at.part.cache.offer(key, at.hash, std::move(row));
  }
  return {};
}

RegisterParts::Kept RegisterParts::find(const RegisterKey& key) {
  const Locked at(*this, key);
  return at.part.find(key, at.hash);
}

void RegisterParts::keep(const RegisterKey& key, RowPtr row, Stamp before) {
  const Locked at(*this, key);
  if (!at.part.is_current(key, at.hash, before)) return;
  at.part.ballots.put(at.hash, row->ballot);
  at.part.cache.put(key, at.hash, std::move(row));
}

bool RegisterParts::is_busy(const RegisterKey& key) {
  const Locked at(*this, key);
  return at.part.is_busy(key);
}

void RegisterParts::begin_write(const RegisterKey& key) {
  const Locked at(*this, key);
  at.part.busy.insert(key);
  at.part.cache.erase(key, at.hash);
  if (holds(Rule::known_ballot)) at.part.ballots.erase(at.hash);
  ++at.part.stamp_of(at.hash);
}

void RegisterParts::end_write(const RegisterKey& key, RowPtr row) {
  const Locked at(*this, key);
  at.part.busy.erase(key);
  ++at.part.stamp_of(at.hash);
  at.part.ballots.put(at.hash, row->ballot);
  at.part.cache.put(key, at.hash, std::move(row));
}

void RegisterParts::abort_write(const RegisterKey& key) {
  const Locked at(*this, key);
  at.part.busy.erase(key);
  ++at.part.stamp_of(at.hash);
}

void RegisterParts::forget(const RegisterKey& key) {
  const Locked at(*this, key);
  at.part.cache.erase(key, at.hash);
  at.part.ballots.erase(at.hash);
}

void RegisterParts::set_gate(const RoundGate& gate, const std::optional<Error>& closed) {
  const auto next = std::make_shared<const Gate>(Gate{gate, closed});
  for (const auto& part : parts_) {
    const CountedLock lock(part->mutex);
    part->gate = next;
  }
}

}  // namespace penstock
