#include "server/volume/fragments/fragment_core.h"

#include <set>

#include "penstock/assert.h"
#include "penstock/log.h"

namespace penstock {

std::optional<ExtentSpan> span_of(const ExtentRow& row) {
  if (row.place == FragmentPlace::file) return std::nullopt;
  return ExtentSpan{row.segment, row.offset, FragmentGeometry{row.data_bytes}.total_bytes()};
}

FragmentCore::FragmentCore(FragmentStoreParts p, const FragmentStoreOptions& options)
    : parts(std::move(p)),
      segments(std::make_shared<SegmentSet>(parts.disk, parts.room, options.segment_bytes)),
      small_writes(std::make_shared<GatheredWrites>(parts.write_worker, segments,
                                                    [this] { return check_open(); })),
      files(parts.disk, parts.room),
      leases(parts.clock, parts.random.next(),
             {options.lease, options.reader_pin, options.start_lease}),
      holds(std::make_shared<FragmentHolds>(
          [set = segments](const ExtentSpan& span) { set->release(span); })),
      cache(options.cache_bytes, options.read_handles) {}

Result<> FragmentCore::open() {
  CHECK_OK(segments->open());
  std::set<FragmentId> in_files;
  const auto visit = [&](const FragmentId& id, std::string_view bytes) -> Result<bool> {
    TRY(row, decode_extent_row(bytes));
    if (const auto span = span_of(row)) {
      CHECK_OK(segments->take(*span));
    } else {
      in_files.insert(in_files.end(), id);
    }
    count_added(row.data_bytes);
    return true;
  };
  CHECK_OK(parts.rows.for_each(std::nullopt, visit));
  CHECK_OK(files.open([&](const FragmentId& id) { return in_files.contains(id); }));
  if (const auto lost = segments->lost_spans(); lost > 0) {
    log_event(LogLevel::warn, "fragments_outside_segments",
              {{"volume", parts.disk.path("")}, {"count", std::to_string(lost)}});
  }
  return {};
}

Result<> FragmentCore::check_open() const {
  if (!closed_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(mutex_);
  return fail(Errc::unavailable, failure_ ? "volume closed after: " + failure_->context
                                          : std::string("fragment store is closed"));
}

void FragmentCore::fail_for_good(const Error& error) {
  if (error.code == Errc::overloaded) return;
  {
    std::lock_guard lock(mutex_);
    if (failure_ || closed_) return;
    failure_ = error;
    closed_.store(true, std::memory_order_release);
  }
  parts.on_failure(error);
}

void FragmentCore::abandon(const Error& why) {
  {
    std::scoped_lock lock(mutex_, submit_mutex_);
    if (!failure_) failure_ = why;
    closed_.store(true, std::memory_order_release);
  }
  pending->close(why);
  parts.write_worker.abandon();
  small_writes->abandon();
  parts.read_worker.abandon();
}

void FragmentCore::close() {
  std::scoped_lock lock(mutex_, submit_mutex_);
  closed_.store(true, std::memory_order_release);
}

Result<std::optional<ExtentRow>> FragmentCore::find_row(const FragmentId& id) const {
  TRY(bytes, parts.rows.get(id));
  if (!bytes) return std::optional<ExtentRow>();
  TRY(row, decode_extent_row(*bytes));
  return std::optional<ExtentRow>(row);
}

Result<FragmentHandlePtr> FragmentCore::load(const FragmentId& id) {
  if (auto known = cache.find(id)) return known;
  auto handle = std::make_shared<FragmentHandle>();
  handle->id = id;
  handle->hold = holds->acquire(id);  // before the row is read: a removal now waits for this read
  TRY(row, find_row(id));
  if (!row) return fail(Errc::not_found, "fragment " + to_string(id));
  handle->row = *row;
  handle->row.owner = FragmentOwner{};  // of no use to readers
  handle->geometry = FragmentGeometry{row->data_bytes};
  auto file = row->place == FragmentPlace::segment ? segments->file(row->segment)
                                                   : files.open_for_reading(id);
  if (!file) {  // damage, unless the fragment was removed meanwhile
    if (file.error().code == Errc::not_found && !handle->hold->is_retired()) count_corrupt();
    return std::move(file).error();
  }
  handle->file = std::move(*file);
  const FragmentGeometry& geometry = handle->geometry;
  const std::uint64_t tail_at = row->offset + geometry.tail_offset();
  // The row's length is no allocation size before the file confirms that it has so much.
  TRY(file_bytes, handle->file->file().size());
  if (file_bytes < row->offset + geometry.total_bytes()) {
    count_corrupt();
    return fail(Errc::corrupt, "fragment " + to_string(id) + " is cut short");
  }
  Buffer tail = parts.buffers.get(static_cast<std::size_t>(geometry.tail_bytes()));
  TRY(got, handle->file->file().read_at(tail_at, tail.mutable_bytes()));
  if (got != tail.size()) {
    count_corrupt();
    return fail(Errc::corrupt, "fragment " + to_string(id) + " is cut short");
  }
  auto table = decode_tail(id, geometry, row->digest, tail.bytes());
  if (!table) {
    count_corrupt();
    return std::move(table).error();
  }
  handle->table = std::move(*table);
  PENSTOCK_ASSERT(handle->table.size() == geometry.blocks());
  cache.insert(handle);
  return FragmentHandlePtr(std::move(handle));
}

void FragmentCore::forget_place(const FragmentId& id, const ExtentRow& old_row) {
  holds->retire(id, span_of(old_row));
  cache.erase(id);
}

void FragmentCore::discard(const std::optional<ExtentSpan>& span, std::string temporary_name) {
  if (span) segments->release(*span);
  if (temporary_name.empty()) return;
  std::lock_guard lock(submit_mutex_);
  if (closed_) return;  // the next start removes it
  parts.write_worker.submit([core = shared_from_this(), name = std::move(temporary_name)] {
    if (auto done = core->files.remove(name); !done) core->fail_for_good(done.error());
  });
}

void FragmentCore::count_added(std::uint64_t data_bytes) {
  ++fragment_count_;
  fragment_bytes_ += data_bytes;
}
void FragmentCore::count_removed(std::uint64_t data_bytes) {
  --fragment_count_;
  fragment_bytes_ -= data_bytes;
}

FragmentStatistics FragmentCore::statistics() const {
  FragmentStatistics now;
  now.fragment_count = fragment_count_;
  now.fragment_bytes = fragment_bytes_;
  now.segment_free_bytes = segments->free_bytes();
  now.segment_count = segments->count();
  now.segment_bytes = segments->segment_bytes();
  now.corrupt_count = corrupt_count_;
  return now;
}

}  // namespace penstock
