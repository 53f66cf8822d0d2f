#include "server/volume/log/volume_log.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "penstock/assert.h"
#include "penstock/checksum.h"
#include "penstock/planted.h"

// Writes and upkeep. Opening: volume_log_open.cc. Reads: volume_log_reads.cc.
namespace penstock {
namespace {

constexpr std::size_t kBodyLengthBytes = sizeof(std::uint32_t);
constexpr std::uint64_t kZeroStep = 1 * limits::kMiB;
constexpr std::uint64_t kShareOfAll = 64;  // a file has one in so many of all bytes,
constexpr std::uint64_t kShareOfFew = 4;   // or of these, up to kFewBytes
constexpr std::uint64_t kFewBytes = 1 * limits::kMiB;

// Never written to, so the system has one page for all of it.
alignas(kLogPageBytes) constinit std::array<std::byte, kZeroStep> zeros{};

// Allocated first: a full disk is told before anything is written. Past the page cache: to copy
// zeros there cost a sixth of what a small PUT does.
Result<> fill_with_zeros(Disk& disk, const std::string& name, File& file, std::uint64_t bytes) {
  PENSTOCK_ASSERT(bytes % kLogPageBytes == 0);
  CHECK_OK(file.allocate(0, bytes));
  TRY(direct, disk.open(name, OpenMode::direct));
  for (std::uint64_t at = 0; at < bytes; at += kZeroStep) {
    const auto step = static_cast<std::size_t>(std::min(bytes - at, kZeroStep));
    CHECK_OK(direct->write_at(at, ConstBytes(zeros).first(step)));
  }
  return direct->sync();
}

// A failure that says nothing of the disk: try again later.
bool passes(const Error& error) {
  return error.code == Errc::overloaded || error.code == Errc::full;
}

template <class T>
bool is_full(const Result<T>& result) {
  return !result && result.error().code == Errc::full;
}

}  // namespace

VolumeLog::VolumeLog(Disk& disk, LogWitness& witness, VolumeLogOptions options)
    : disk_(disk), witness_(witness), options_(options) {}

std::string VolumeLog::name_of(std::uint64_t file) {
  char name[40];
  std::snprintf(name, sizeof name, "%s/%08llu.log", kLogDirectory,
                static_cast<unsigned long long>(file));
  return name;
}

Result<> VolumeLog::create() {
  CHECK_OK(disk_.make_directory(kLogDirectory));
  return disk_.sync_directory("");
}

std::uint64_t VolumeLog::next_file_bytes(std::uint64_t at_least) const {
  std::uint64_t all = 0;
  {
    const CountedLock lock(mutex_);
    for (const auto& [number, file] : files_) all += file.bytes;
  }
  const std::uint64_t wanted = std::max(all / kShareOfAll, std::min(all / kShareOfFew, kFewBytes));
  const std::uint64_t share = std::clamp(wanted, options_.file_bytes_min, options_.file_bytes_max);
  std::uint64_t bytes = options_.file_bytes_min;
  while (bytes < share) bytes *= 2;
  return std::max(bytes, log_pages(at_least));
}

// Some file systems give an allocation all that is left before they refuse it, and others on the
// disk find nothing meanwhile. So what has no room is not tried, but for the smallest file.
bool VolumeLog::has_room_for(std::uint64_t bytes) const {
  const auto space = disk_.space();
  return !space || space->free_bytes >= bytes;
}

Result<VolumeLog::Spare> VolumeLog::make_file(std::uint64_t number, std::uint64_t bytes) {
  Spare spare;
  spare.number = number;
  spare.bytes = bytes;
  TRY(file, disk_.open(name_of(number), OpenMode::write_new));
  spare.file = std::move(file);
  const auto filled = fill_with_zeros(disk_, name_of(number), *spare.file, bytes);
  if (!filled) {  // what it took is wanted by others; it has no record
    [[maybe_unused]] const auto removed = disk_.remove(name_of(number));
    return filled.error();
  }
  CHECK_OK(disk_.sync_directory(kLogDirectory));
  return spare;
}

// The witness names the next file before it gets a record, and with that tells how many the file
// before has. Pre: by the group commit.
Result<> VolumeLog::rotate(std::uint64_t bytes) {
  std::lock_guard spare_lock(spare_mutex_);
  if (spare_ && spare_->bytes < bytes) {
    CHECK_OK(witness_.drop({spare_->number}));
    CHECK_OK(disk_.remove(name_of(spare_->number)));
    spare_.reset();
    const CountedLock lock(mutex_);
    has_spare_ = false;
  }
  if (!spare_) {
    // Deletes must pass on a disk that is nearly full.
    const auto smallest = std::max(options_.file_bytes_min, bytes);
    const auto wanted = next_file_bytes(bytes);
    auto made = make_file(highest_ + 1, has_room_for(wanted) ? wanted : smallest);
    if (is_full(made)) made = make_file(highest_ + 1, smallest);
    if (is_full(made) && options_.make_room) {
      options_.make_room();
      made = make_file(highest_ + 1, smallest);
    }
    if (!made) return made.error();
    spare_ = std::move(*made);
    ++highest_;
  }
  must_rotate_ = true;
  TRY(begun, witness_.begin_log_file(spare_->number, next_, spare_->bytes));
  must_rotate_ = false;
  writer_ = std::move(spare_->file);
  synced_ = begun.frames;
  offset_ = 0;
  std::shared_ptr<File> closed;  // without the lock
  const CountedLock lock(mutex_);
  if (newest_ != 0) {
    LogFile& full = files_[newest_];
    full.records = next_ - full.first;
  }
  newest_ = spare_->number;
  newest_used_ = 0;
  LogFile& file = files_[newest_];
  closed = keep_handle(file, writer_);
  file.marker = begun.marker;
  file.first = next_;
  file.bytes = spare_->bytes;
  spare_.reset();
  has_spare_ = false;
  return {};
}

Result<LogRecord> VolumeLog::begin(std::size_t bytes) {
  const std::uint64_t needed = log_pages(kFrameHeadBytes + kBodyLengthBytes + bytes);
  std::uint64_t file_bytes = 0;
  {
    const CountedLock lock(mutex_);
    if (newest_ != 0) file_bytes = files_[newest_].bytes;
  }
  if (must_rotate_ || offset_ + needed > file_bytes) CHECK_OK(rotate(needed));
  LogRecord record;
  record.number_ = next_;
  record.file_ = newest_;
  record.offset_ = offset_;
  record.bytes_.reserve(static_cast<std::size_t>(needed));
  record.bytes_.assign(kFrameHeadBytes + kBodyLengthBytes, '\0');
  return record;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> VolumeLog::live_with(
    const LogRecord& record) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> live;
  const CountedLock lock(mutex_);
  for (const auto& [number, change] : record.live_changes()) {
    const auto file = files_.find(number);
    if (file == files_.end() || change == 0) continue;
    const auto now = static_cast<std::int64_t>(file->second.live) + change;
    // A count that does not add up removes no file: the collector finds out what is named.
    live.emplace_back(number, now < 0 ? 1 : static_cast<std::uint64_t>(now));
  }
  return live;
}

std::vector<std::uint64_t> VolumeLog::take_removed() {
  const CountedLock lock(mutex_);
  return std::exchange(removed_, {});
}

Result<> VolumeLog::append(LogRecord record, std::string_view changes, bool sync) {
  PENSTOCK_ASSERT(record.number_ == next_ && record.file_ == newest_ && writer_ != nullptr);
  std::string& bytes = record.bytes_;
  const auto bodies = static_cast<std::uint32_t>(bytes.size() - kFrameHeadBytes - kBodyLengthBytes);
  std::memcpy(bytes.data() + kFrameHeadBytes, &bodies, sizeof bodies);
  bytes.append(changes);
  LogFrameHead head;
  std::uint64_t file_bytes = 0;
  {
    const CountedLock lock(mutex_);
    const LogFile& file = files_[newest_];
    head.marker = file.marker;
    head.number = static_cast<std::uint32_t>(next_ - file.first);
    file_bytes = file.bytes;
  }
  PENSTOCK_ASSERT(offset_ + bytes.size() <= file_bytes);
  head.length = static_cast<std::uint32_t>(bytes.size() - kFrameHeadBytes);
  head.crc = crc32c(as_bytes(std::string_view(bytes).substr(kFrameHeadBytes)));
  write_frame_head(head, bytes.data());
  // Whole pages: of a part the system would have to read the rest first.
  bytes.resize(static_cast<std::size_t>(log_pages(bytes.size())), '\0');
  // The page with the head last: log_walk.h.
  const std::string_view all(bytes);
  if (all.size() > kLogPageBytes) {
    CHECK_OK(writer_->write_at(offset_ + kLogPageBytes, as_bytes(all.substr(kLogPageBytes))));
  }
  CHECK_OK(writer_->write_at(offset_, as_bytes(all.substr(0, kLogPageBytes))));
  if (sync) CHECK_OK(writer_->sync());
  offset_ += bytes.size();
  ++next_;
  synced_->store(head.number + 1);
  const auto live = live_with(record);
  const CountedLock lock(mutex_);
  newest_used_ = offset_;
  for (const auto& [number, now] : live) {
    const auto file = files_.find(number);
    if (file == files_.end()) continue;
    file->second.live = now;
    if (is_removable(number, file->second)) wants_upkeep_ = true;
  }
  if (is_spare_due()) wants_upkeep_ = true;
  return {};
}

// When a file is three quarters full the next one is made, so that no commit waits for it.
bool VolumeLog::is_spare_due() const {
  const auto newest = files_.find(newest_);
  if (has_spare_ || newest == files_.end()) return false;
  const std::uint64_t bytes = newest->second.bytes;
  return newest_used_ >= bytes - bytes / 4;
}

bool VolumeLog::is_removable(std::uint64_t number, const LogFile& file) const {
  const bool in_tables = is_in_tables(file) || !holds(Rule::log_floor);
  const bool unnamed = file.live == 0 || !holds(Rule::named_body_stays);
  return number != newest_ && unnamed && in_tables;
}

void VolumeLog::set_floor(std::uint64_t number) {
  witness_.set_floor(number);
  const CountedLock lock(mutex_);
  floor_ = std::max(floor_, number);
  for (const auto& [at, file] : files_) {
    if (is_removable(at, file)) wants_upkeep_ = true;
  }
}

Result<> VolumeLog::upkeep() {
  wants_upkeep_ = false;
  Result<> removed = remove_empty();
  if (!removed && !passes(removed.error())) return removed;
  Result<> made = make_spare();
  if (!made && !passes(made.error())) return made;
  return {};
}

Result<> VolumeLog::make_spare() {
  std::lock_guard spare_lock(spare_mutex_);
  {
    const CountedLock lock(mutex_);
    if (!is_spare_due()) return {};
  }
  const std::uint64_t bytes = next_file_bytes(0);
  if (!has_room_for(bytes)) return fail(Errc::full, "no room for the next file of the log");
  TRY(made, make_file(highest_ + 1, bytes));
  spare_ = std::move(made);
  ++highest_;
  const CountedLock lock(mutex_);
  has_spare_ = true;
  return {};
}

// The witness first: what it names must be there. With the name it drops it says how much of the
// manifest is needed, and the floor: an earlier state of the tables would ask for these records.
Result<> VolumeLog::remove_empty() {
  std::vector<std::uint64_t> numbers;
  {
    const CountedLock lock(mutex_);
    for (const auto& [number, file] : files_) {
      if (is_removable(number, file)) numbers.push_back(number);
    }
  }
  if (numbers.empty()) return {};
  CHECK_OK(witness_.drop(numbers));
  for (const std::uint64_t number : numbers) {
    std::shared_ptr<File> closed;  // without the lock
    const CountedLock lock(mutex_);
    LogFile& file = files_[number];
    if (file.handle) --handles_;
    closed = std::move(file.handle);
    files_.erase(number);
    removed_.push_back(number);
  }
  for (const std::uint64_t number : numbers) CHECK_OK(disk_.remove(name_of(number)));
  return {};
}

VolumeLog::Usage VolumeLog::usage() const {
  Usage usage;
  const CountedLock lock(mutex_);
  usage.files = files_.size();
  for (const auto& [number, file] : files_) {
    usage.bytes += file.bytes;
    if (number == newest_) continue;
    usage.full_bytes += file.bytes;
    usage.live_bytes += file.live;
  }
  return usage;
}

bool VolumeLog::is_collectable(std::uint64_t number, const LogFile& file) const {
  return number != newest_ && file.live > 0 && is_in_tables(file);
}

bool VolumeLog::is_wasteful(double share) const {
  std::uint64_t bytes = 0, live = 0;
  const CountedLock lock(mutex_);
  for (const auto& [number, file] : files_) {
    if (!is_collectable(number, file)) continue;
    bytes += file.bytes;
    live += file.live;
  }
  return static_cast<double>(live) < share * static_cast<double>(bytes);
}

std::uint64_t VolumeLog::bytes_above_floor() const {
  std::uint64_t bytes = 0;
  const CountedLock lock(mutex_);
  for (auto at = files_.rbegin(); at != files_.rend(); ++at) {  // the newest first
    if (at->first == newest_) continue;
    if (is_in_tables(at->second)) break;
    bytes += at->second.bytes;
  }
  return bytes;
}

std::optional<std::uint64_t> VolumeLog::emptiest(double share,
                                                 const std::vector<std::uint64_t>& except) const {
  std::optional<std::uint64_t> found;
  const CountedLock lock(mutex_);
  for (const auto& [number, file] : files_) {
    if (!is_collectable(number, file)) continue;
    if (std::find(except.begin(), except.end(), number) != except.end()) continue;
    const double own = static_cast<double>(file.live) / static_cast<double>(file.bytes);
    if (own >= share) continue;
    share = own;
    found = number;
  }
  return found;
}

void VolumeLog::set_empty(std::uint64_t file) {
  const CountedLock lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end() || file == newest_) return;
  found->second.live = 0;
  wants_upkeep_ = true;
}

}  // namespace penstock
