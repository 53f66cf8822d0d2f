#include <charconv>

#include "penstock/log.h"
#include "penstock/planted.h"
#include "server/volume/log/volume_log.h"

// A start: are the files those that the witness names, and where do their records end?
namespace penstock {
namespace {

// Of a name in the directory of the log; 0: none of ours.
std::uint64_t number_of(std::string_view leaf) {
  if (!leaf.ends_with(".log")) return 0;
  leaf.remove_suffix(4);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(leaf.data(), leaf.data() + leaf.size(), number);
  return error == std::errc() && end == leaf.data() + leaf.size() ? number : 0;
}

Error refuse(const Disk& disk, const std::string& name, const std::string& why) {
  return fail(Errc::corrupt, disk.path(name) + " " + why);
}

}  // namespace

Result<> VolumeLog::open() {
  floor_ = witness_.floor();
  const auto logs = witness_.logs();
  for (const auto& [name, log] : logs) {
    if (name.kind == LogKind::log_file) newest_ = std::max(newest_, name.number);
  }
  highest_ = newest_;
  for (const auto& [name, log] : logs) {
    if (name.kind != LogKind::log_file) continue;
    const auto checked = check_file(name.number, log, name.number == newest_);
    if (!checked && (holds(Rule::log_witness) || checked.error().code != Errc::corrupt)) {
      return checked;
    }
  }
  if (newest_ != 0 && !writer_) {
    if (holds(Rule::log_witness)) return refuse(disk_, name_of(newest_), "cannot be used");
    newest_ = 0;
  }
  return check_strangers();
}

Result<> VolumeLog::check_file(std::uint64_t number, const WitnessedLog& log, bool newest) {
  const std::string name = name_of(number);
  auto file = disk_.open(name, OpenMode::read);
  if (!file && file.error().code == Errc::not_found) return refuse(disk_, name, "is lost");
  if (!file) return file.error();
  TRY(bytes, (*file)->size());
  if (bytes != log.bytes) {
    return refuse(
        disk_, name,
        "has " + std::to_string(bytes) + " bytes in place of " + std::to_string(log.bytes));
  }
  const std::uint64_t counted = log.frames->load();
  LogFile entry;
  entry.marker = log.marker;
  entry.first = log.first;
  entry.records = counted;
  entry.bytes = bytes;
  if (!newest && is_in_tables(entry)) {  // nobody asks for more of it than bodies
    TRY(own, begins_log(**file, log.marker));
    if (!own && counted > 0) return refuse(disk_, name, "is another file, or damaged");
    files_[number] = std::move(entry);
    return {};
  }
  TRY(end, walk_log(**file, log.marker, bytes, {}));
  if (end.foreign) return refuse(disk_, name, "is another file, or its beginning is damaged");
  if (end.records < counted || (!newest && end.records > counted)) {
    return refuse(
        disk_, name,
        "has " + std::to_string(end.records) + " records in place of " + std::to_string(counted));
  }
  if (end.record_after && holds(Rule::log_tail)) {
    return refuse(disk_, name, "is damaged before its last record");
  }
  entry.records = end.records;
  files_[number] = std::move(entry);
  return newest ? end_newest(number, end, **file) : Result<>();
}

// What a process wrote before it was killed is in the page cache: so in its boot a record that is
// not whole may have been acknowledged.
Result<> VolumeLog::end_newest(std::uint64_t number, const LogEnd& end, File& file) {
  const std::string name = name_of(number);
  const LogFile& entry = files_[number];
  if (end.begun && options_.same_boot && holds(Rule::log_tail)) {
    return refuse(disk_, name, "is damaged in its last record");
  }
  if (end.begun) {
    log_event(LogLevel::warn, "torn_log_tail_dropped",
              {{"file", disk_.path(name)}, {"whole_records", std::to_string(end.records)}});
  }
  TRY(writer, disk_.open(name, OpenMode::append));
  CHECK_OK(clear_log(*writer, end.bytes, entry.bytes));
  // Its sync may have failed in a process that was killed then. The pages count as written after
  // that, whether the disk has them or not: they are written again.
  if (end.records > 0) {
    std::string last(static_cast<std::size_t>(end.bytes - end.last_at), '\0');
    TRY(got, file.read_at(end.last_at, std::as_writable_bytes(std::span(last))));
    CHECK_OK(writer->write_at(end.last_at, as_bytes(std::string_view(last).substr(0, got))));
  }
  CHECK_OK(writer->sync());
  CHECK_OK(disk_.sync_directory(kLogDirectory));
  CHECK_OK(disk_.sync_directory(""));
  writer_ = std::move(writer);
  {
    const CountedLock lock(mutex_);
    keep_handle(files_[number], writer_);
  }
  offset_ = end.bytes;
  newest_used_ = end.bytes;
  next_ = entry.first + end.records;
  synced_ = witness_.find({LogKind::log_file, number})->frames;
  synced_->store(end.records);
  return {};
}

// A file that was made and never named has no record. One that was dropped may still be there.
Result<> VolumeLog::check_strangers() {
  TRY(leaves, disk_.list(kLogDirectory));
  for (const std::string& leaf : leaves) {
    const std::uint64_t number = number_of(leaf);
    const std::string name = std::string(kLogDirectory) + "/" + leaf;
    if (number == 0 || files_.contains(number)) continue;
    if (number > newest_ && holds(Rule::log_witness)) {
      TRY(file, disk_.open(name, OpenMode::read));
      TRY(unwritten, is_unwritten(*file));
      if (!unwritten) return refuse(disk_, name, "has records, but the witness does not know it");
    }
    highest_ = std::max(highest_, number);
    CHECK_OK(disk_.remove(name));
  }
  return {};
}

Result<> VolumeLog::replay(std::uint64_t applied, const VisitRecord& visit) {
  if (applied + 1 < floor_) {
    return fail(Errc::corrupt, "the tables in " + disk_.path("db") + " end at record " +
                                   std::to_string(applied) + ", and had all below " +
                                   std::to_string(floor_));
  }
  std::uint64_t expected = applied + 1;
  for (const auto& [number, entry] : files_) {
    if (entry.first + entry.records <= expected) continue;
    if (entry.first > expected && holds(Rule::manifest_pin)) {
      return refuse(disk_, name_of(number), "follows records that are lost");
    }
    TRY(file, disk_.open(name_of(number), OpenMode::read));
    const auto each = [&, first = entry.first](std::uint64_t record, std::uint64_t,
                                               std::string_view payload) -> Result<> {
      if (first + record < expected) return {};
      CHECK_OK(visit(first + record, payload));
      expected = first + record + 1;
      return {};
    };
    CHECK_OK(walk_log(*file, entry.marker, entry.bytes, each));
  }
  if (expected != next_ && expected != applied + 1) {
    return fail(Errc::corrupt, "the log in " + disk_.path(kLogDirectory) + " has changed");
  }
  if (newest_ != 0 && next_ <= applied) {
    return fail(Errc::corrupt, "the log in " + disk_.path(kLogDirectory) + " ends at record " +
                                   std::to_string(next_ - 1) + ", the tables have " +
                                   std::to_string(applied));
  }
  if (newest_ == 0) next_ = applied + 1;
  return {};
}

bool VolumeLog::set_live(std::uint64_t file, std::uint64_t bytes) {
  const CountedLock lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end()) return false;
  found->second.live = bytes;
  return true;
}

}  // namespace penstock
