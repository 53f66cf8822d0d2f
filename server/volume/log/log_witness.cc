#include "server/volume/log/log_witness.h"

#include <algorithm>

#include "penstock/byte_codec.h"
#include "penstock/planted.h"
#include "server/volume/disk/sealed_row.h"
#include "server/volume/disk/small_file.h"

namespace penstock {
Result<> LogWitness::create() {
  std::lock_guard lock(mutex_);
  logs_.clear();
  manifest_ = 0;
  floor_ = 0;
  table_marker_ = random_.next();
  written_.clear();
  return write();
}

Result<> LogWitness::load() {
  std::lock_guard lock(mutex_);
  const std::string path = disk_.path(kWitnessFile);
  auto bytes = read_small_file(disk_, kWitnessFile);
  if (!bytes && bytes.error().code != Errc::not_found) return bytes.error();
  if (!bytes) return fail(Errc::corrupt, path + " is missing: nothing says which logs belong here");
  const auto payload = unseal_row(kWitnessFile, *bytes);
  if (!payload) return fail(Errc::corrupt, path + " is damaged");
  ByteReader reader(*payload);
  logs_.clear();
  manifest_ = 0;
  floor_ = 0;
  table_marker_ = reader.number<std::uint64_t>();
  floor_ = reader.number<std::uint64_t>();
  while (reader.ok() && !reader.at_end()) {
    const auto kind = reader.number<std::uint8_t>();
    const auto number = reader.number<std::uint64_t>();
    const auto marker = reader.number<std::uint64_t>();
    const auto frames = reader.number<std::uint64_t>();
    if (kind != 1 && kind != 2) return fail(Errc::corrupt, path + " names an unknown file");
    WitnessedLog& log = logs_[{static_cast<LogKind>(kind), number}];
    log = {marker, std::make_shared<std::atomic<std::uint64_t>>(frames)};
    if (static_cast<LogKind>(kind) != LogKind::log_file) continue;
    log.first = reader.number<std::uint64_t>();
    log.bytes = reader.number<std::uint64_t>();
  }
  if (!reader.ok()) return fail(Errc::corrupt, path + " is too short");
  written_ = *payload;
  return {};
}

std::map<LogName, WitnessedLog> LogWitness::logs() const {
  std::lock_guard lock(mutex_);
  return logs_;
}

std::optional<WitnessedLog> LogWitness::find(LogName name) const {
  std::lock_guard lock(mutex_);
  const auto found = logs_.find(name);
  return found == logs_.end() ? std::nullopt : std::optional<WitnessedLog>(found->second);
}

std::uint64_t LogWitness::table_marker() const {
  std::lock_guard lock(mutex_);
  return table_marker_;
}

Result<WitnessedLog> LogWitness::begin(LogName name, WitnessedLog log) {
  std::lock_guard lock(mutex_);
  log.marker = random_.next();
  log.frames = std::make_shared<std::atomic<std::uint64_t>>(0);
  logs_[name] = log;
  CHECK_OK(write());
  return log;
}

Result<WitnessedLog> LogWitness::begin_manifest(std::uint64_t number) {
  return begin({LogKind::manifest, number}, {});
}

Result<WitnessedLog> LogWitness::begin_log_file(std::uint64_t number, std::uint64_t first,
                                                std::uint64_t bytes) {
  WitnessedLog log;
  log.first = first;
  log.bytes = bytes;
  {
    std::lock_guard lock(mutex_);
    const bool named = logs_.contains({LogKind::log_file, number});
    if (logs_.size() >= kWitnessedMax && !named) return fail(Errc::full, "too many log files");
  }
  return begin({LogKind::log_file, number}, log);
}

void LogWitness::use_manifest(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  manifest_ = number;
}

Result<> LogWitness::drop(const std::vector<std::uint64_t>& log_files) {
  std::lock_guard lock(mutex_);
  for (const std::uint64_t number : log_files) logs_.erase({LogKind::log_file, number});
  std::erase_if(logs_, [this](const auto& entry) {
    return manifest_ != 0 && entry.first.kind == LogKind::manifest &&
           entry.first.number != manifest_;
  });
  return write();
}

void LogWitness::set_floor(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  floor_ = std::max(floor_, number);
}

std::uint64_t LogWitness::floor() const {
  std::lock_guard lock(mutex_);
  return floor_;
}

Result<> LogWitness::seal() {
  std::lock_guard lock(mutex_);
  return write();
}

Result<> LogWitness::write() {
  std::string payload;
  ByteWriter writer(payload);
  writer.number(table_marker_);
  writer.number(holds(Rule::manifest_pin) ? floor_ : std::uint64_t{0});
  for (const auto& [name, log] : logs_) {
    const bool pinned = name.kind != LogKind::manifest || holds(Rule::manifest_pin);
    writer.number(static_cast<std::uint8_t>(name.kind));
    writer.number(name.number);
    writer.number(log.marker);
    writer.number(pinned ? log.frames->load() : std::uint64_t{0});
    if (name.kind != LogKind::log_file) continue;
    writer.number(log.first);
    writer.number(log.bytes);
  }
  if (payload == written_) return {};
  written_.clear();
  CHECK_OK(replace_file(disk_, kWitnessFile, seal_row(kWitnessFile, payload)));
  written_ = std::move(payload);
  return {};
}

}  // namespace penstock
