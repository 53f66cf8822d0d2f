#include "server/volume/fragments/fragment_writer.h"

#include <cstring>
#include <list>
#include <utility>

#include "penstock/assert.h"
#include "penstock/caught.h"
#include "penstock/planted.h"

namespace penstock {
namespace {

// Up to here data, table and footer go to the disk in one write.
constexpr std::uint64_t kCoalescedBytesMax = limits::kReplicatedBytesMax;

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kGranuleBytes == 0;
}

// Shared by the writer and its jobs: space is given back only when no job can write into it.
struct Stream {
  Stream(std::shared_ptr<FragmentCore> c, FragmentId i, FragmentShape shape)
      : core(std::move(c)), id(i), owner(std::move(shape.owner)), geometry{shape.data_bytes} {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (phase == Phase::committed || row_uncertain) return;
    temporary.file.reset();
    core->discard(span, std::move(temporary.name));
  }

  bool is_coalesced() const { return geometry.data_bytes <= kCoalescedBytesMax; }
  // Blocks.
  Result<> write(std::uint64_t offset, ConstBytes bytes) {
    CHECK_OK(core->check_open());
    if (!span) return temporary.file->file().write_at(offset, bytes);
    TRY(file, core->segments->file(span->segment));
    return file->file().write_at(span->offset + offset, bytes);
  }

  enum class Phase : std::uint8_t { receiving, committing, committed, failed };

  // Constant after the writer was opened.
  const std::shared_ptr<FragmentCore> core;
  const FragmentId id;
  const FragmentOwner owner;
  const FragmentGeometry geometry;
  std::optional<ExtentSpan> span;  // else a file
  BigFiles::Temporary temporary;   // its name is empty for an extent, and after it was published

  // Of the caller's executor.
  Phase phase = Phase::receiving;
  bool row_uncertain = false;  // a row may name the space: only the next start can tell
  std::vector<std::uint32_t> table;
  std::uint64_t received = 0;
  // What was received but not given to the disk: all of it, with room for padding and tail, or less
  // than a granule.
  Buffer held;
  std::size_t held_bytes = 0;

  // Shared with the jobs.
  std::mutex mutex;
  int in_flight = 0;
  std::optional<Error> failure;
  std::optional<Completion<void>> waiter;  // resumes when a write ends
  bool given_up = false;                   // nobody waits for it any more
  // Pieces that the worker has not begun to write.
  std::list<std::shared_ptr<Buffer>> queued;
};
using StreamPtr = std::shared_ptr<Stream>;

// Shared with the jobs, which may never end: what the writer needs no more is forgotten here.
void give_up_stream(const StreamPtr& stream) {
  std::list<std::shared_ptr<Buffer>> forgotten;
  {
    std::lock_guard lock(stream->mutex);
    stream->given_up = true;
    forgotten.swap(stream->queued);
    for (const auto& piece : forgotten) *piece = Buffer();
  }
  stream->core->pending->give_up(stream.get());
}

void run_write(const StreamPtr& stream, std::uint64_t offset,
               const std::shared_ptr<Buffer>& queued) {
  Result<> result = fail(Errc::timeout, "the writer was given up");
  Buffer data;
  {
    std::lock_guard lock(stream->mutex);
    std::erase(stream->queued, queued);
    if (!stream->given_up) data = std::move(*queued);
  }
  if (data.size() > 0) {
    try {
      result = stream->write(offset, data.bytes());
    } catch (...) {
      result = error_of_exception("a write of a fragment");
    }
    if (!result) stream->core->fail_for_good(result.error());
    data = Buffer();
  }
  std::optional<Completion<void>> waiter;
  {
    std::lock_guard lock(stream->mutex);
    --stream->in_flight;
    if (!result && !stream->failure) stream->failure = result.error();
    waiter = std::exchange(stream->waiter, std::nullopt);
  }
  if (waiter) (*waiter)({});
}

void submit_write(const StreamPtr& stream, std::uint64_t offset, Buffer data) {
  auto queued = std::make_shared<Buffer>(std::move(data));
  {
    std::lock_guard lock(stream->mutex);
    if (stream->given_up) return;
    ++stream->in_flight;
    stream->queued.push_back(queued);
  }
  stream->core->parts.write_worker.submit(
      [stream, offset, queued] { run_write(stream, offset, queued); });
}

// Resumes when a write in flight ends; at once if none is. Errors: timeout - it was given up, or
// the deadline is over.
Task<> wait_for_write(StreamPtr stream, Deadline deadline) {
  const void* const owner = stream.get();
  const auto pending = stream->core->pending;
  auto start = [stream = std::move(stream)](Completion<void> done) {
    Result<> outcome;
    {
      std::lock_guard lock(stream->mutex);
      if (stream->in_flight > 0 && !stream->given_up) {
        stream->waiter = std::move(done);
        return;
      }
      if (stream->given_up) outcome = fail(Errc::timeout, "the writer was given up");
    }
    done(outcome);
  };
  return pending->wait<void>(std::move(start), deadline, Errc::unavailable, owner);
}

// Resumes when at most `count_max` writes are in flight. Errors: those of the writes that ended.
Task<> wait_until_in_flight(StreamPtr stream, int count_max, Deadline deadline) {
  while (true) {
    {
      std::lock_guard lock(stream->mutex);
      if (stream->failure) co_return *stream->failure;
      if (stream->given_up) co_return fail(Errc::timeout, "the writer was given up");
      if (stream->in_flight <= count_max) co_return Result<>{};
    }
    CO_CHECK(co_await wait_for_write(stream, deadline));
  }
}

Result<> accept_piece(Stream& stream, const Buffer& data, const std::vector<std::uint32_t>& crcs) {
  const auto refuse = [&](const char* why) {
    return fail(Errc::invalid, "fragment " + to_string(stream.id) + ": " + why);
  };
  if (stream.phase != Stream::Phase::receiving) return refuse("append after commit or a failure");
  if (data.size() > stream.geometry.data_bytes - stream.received) return refuse("too many bytes");
  if (stream.received % limits::kBlockBytes != 0) return refuse("a piece after an odd one");
  if (crcs.size() != FragmentGeometry{data.size()}.blocks()) {
    return refuse("not one checksum per block");
  }
  return {};
}

Task<> append_piece(StreamPtr stream, Buffer data, std::vector<std::uint32_t> crcs,
                    Deadline deadline) {
  CO_CHECK(stream->core->check_open());
  CO_CHECK(accept_piece(*stream, data, crcs));
  const std::uint64_t offset = stream->received;
  stream->received += data.size();
  stream->table.insert(stream->table.end(), crcs.begin(), crcs.end());
  // Only the last piece can have an odd end, so what is held begins at most once.
  const std::size_t direct =
      stream->is_coalesced() ? 0 : data.size() / kGranuleBytes * kGranuleBytes;
  if (direct < data.size()) {
    const std::size_t rest = data.size() - direct;
    std::memcpy(stream->held.data() + stream->held_bytes, data.data() + direct, rest);
    stream->held_bytes += rest;
  }
  if (direct == 0) co_return Result<>{};
  Buffer aligned = data.slice(0, direct);
  if (!is_aligned(aligned.data())) {
    aligned = stream->core->parts.buffers.get(direct);
    std::memcpy(aligned.data(), data.data(), direct);
  }
  constexpr int kOthersMax = limits::kFragmentWritesInFlight - 1;
  const auto admitted = co_await wait_until_in_flight(stream, kOthersMax, deadline);
  if (!admitted) {
    stream->phase = Stream::Phase::failed;
    co_return admitted.error();
  }
  submit_write(stream, offset, std::move(aligned));
  co_return Result<>{};
}

// What commit() writes: what is held, padding, table, footer.
struct LastWrite {
  std::uint64_t offset = 0;
  Buffer bytes;
  ExtentRow row;
};
LastWrite make_last_write(Stream& stream) {
  const FragmentGeometry& geometry = stream.geometry;
  LastWrite last;
  last.offset = stream.is_coalesced() ? 0 : geometry.data_bytes / kGranuleBytes * kGranuleBytes;
  const auto padded = static_cast<std::size_t>(geometry.tail_offset() - last.offset);
  const auto tail = static_cast<std::size_t>(geometry.tail_bytes());
  PENSTOCK_ASSERT(stream.held_bytes <= padded);
  if (stream.is_coalesced()) {
    last.bytes = std::move(stream.held);
  } else {
    last.bytes = stream.core->parts.buffers.get(padded + tail);
    std::memcpy(last.bytes.data(), stream.held.data(), stream.held_bytes);
  }
  const MutBytes bytes = last.bytes.mutable_bytes();
  PENSTOCK_ASSERT(bytes.size() == padded + tail);
  std::memset(bytes.data() + stream.held_bytes, 0, padded - stream.held_bytes);
  last.row.digest = encode_tail(stream.id, geometry, stream.table, bytes.subspan(padded));
  last.row.data_bytes = geometry.data_bytes;
  last.row.owner = stream.owner;
  if (stream.span) {
    last.row.segment = stream.span->segment;
    last.row.offset = stream.span->offset;
  } else {
    last.row.place = FragmentPlace::file;
  }
  return last;
}

// Makes the written bytes durable; `outcome` is set when they are. On the write worker.
void begin_sync(const StreamPtr& stream, const std::shared_ptr<Outcome>& outcome) {
  Worker& worker = stream->core->parts.write_worker;
  auto done = [stream, outcome](const Result<>& result) {
    if (!result) stream->core->fail_for_good(result.error());
    outcome->set(result);
  };
  if (!holds(Rule::fragment_sync)) return done({});
  if (stream->span) {
    auto file = stream->core->segments->file(stream->span->segment);
    if (!file) return done(file.error());
    return (*file)->sync_soon(worker, std::move(done));
  }
  worker.submit([stream, done = std::move(done)] {
    done(stream->core->files.publish(stream->id, stream->temporary));
  });
}

// The last write, after a look at the row that it may replace; then begins the sync. Blocks.
// Errors: invalid - the id has other bytes; those of the write, which are final.
Result<std::optional<ExtentRow>> write_last(const StreamPtr& stream, const LastWrite& last,
                                            const std::shared_ptr<Outcome>& outcome) {
  TRY(old, stream->core->find_row(stream->id));
  if (old && (old->digest != last.row.digest || old->data_bytes != last.row.data_bytes)) {
    return fail(Errc::invalid, "fragment " + to_string(stream->id) + " exists with other bytes");
  }
  if (auto written = stream->write(last.offset, last.bytes.bytes()); !written) {
    stream->core->fail_for_good(written.error());
    return std::move(written).error();
  }
  begin_sync(stream, outcome);
  return old;
}

// After the new row is durable: accounts for it, and frees what the old one named.
Task<> settle(StreamPtr stream, std::optional<ExtentRow> old) {
  FragmentCore& core = *stream->core;
  if (!old) {
    core.count_added(stream->geometry.data_bytes);
    co_return Result<>{};
  }
  core.forget_place(stream->id, *old);
  if (old->place == FragmentPlace::segment || !stream->span) co_return Result<>{};
  auto remove_file = [stream] { return stream->core->files.remove(BigFiles::name_of(stream->id)); };
  const Result<> removed =
      co_await core.pending->run_on<void>(core.parts.write_worker, std::move(remove_file));
  if (!removed) core.fail_for_good(removed.error());
  co_return removed;
}

Task<> commit_steps(StreamPtr stream, Deadline deadline) {
  FragmentCore& core = *stream->core;
  CO_CHECK(core.check_open());
  CO_TRY(claim, core.leases.claim(stream->id));
  CO_CHECK(co_await wait_until_in_flight(stream, 0, deadline));
  if (deadline < core.parts.clock.boot()) co_return fail(Errc::timeout, "commit: too late");
  auto last = std::make_shared<LastWrite>(make_last_write(*stream));
  auto outcome = std::make_shared<Outcome>();
  auto write = [stream, last, outcome] { return write_last(stream, *last, outcome); };
  CO_TRY(old, co_await core.pending->run_on<std::optional<ExtentRow>>(core.parts.write_worker,
                                                                      std::move(write)));
  last->bytes = Buffer();
  CO_CHECK(core.check_open());  // the volume may have been closed meanwhile

  core.leases.stamp(last->row);
  std::string row = encode(last->row);
  stream->row_uncertain = true;
  const Result<> put = co_await core.parts.rows.put(stream->id, std::move(row));
  const Result<> synced = co_await Outcome::wait(outcome, core.pending);
  if (synced && !stream->span) {
    // It has its final name now; without a row that is what must go.
    stream->temporary.name = BigFiles::name_of(stream->id);
  }
  if (!put) {
    const Errc code = put.error().code;
    const bool nothing_written = code == Errc::overloaded || code == Errc::unavailable;
    // A file that stood in for an equal one stays: the old row names it.
    stream->row_uncertain = !nothing_written || (!stream->span && old.has_value());
    co_return put;
  }
  CO_CHECK(synced);
  stream->phase = Stream::Phase::committed;
  co_return co_await settle(stream, old);
}

Task<> commit_stream(StreamPtr stream, Deadline deadline) {
  if (stream->phase == Stream::Phase::committed) co_return Result<>{};
  if (stream->phase != Stream::Phase::receiving ||
      stream->received != stream->geometry.data_bytes) {
    co_return fail(Errc::invalid, "fragment " + to_string(stream->id) +
                                      ": commit of an incomplete or failed stream");
  }
  stream->phase = Stream::Phase::committing;
  const Result<> result = co_await commit_steps(stream, deadline);
  if (!result && stream->phase == Stream::Phase::committing) {
    stream->phase = Stream::Phase::failed;
  }
  co_return result;
}

class StreamWriter final : public FragmentWriter {
 public:
  explicit StreamWriter(StreamPtr stream) : stream_(std::move(stream)) {}
  Task<> append(Buffer data, std::vector<std::uint32_t> crcs, Deadline deadline) override {
    return append_piece(stream_, std::move(data), std::move(crcs), deadline);
  }
  Task<> commit(Deadline deadline) override { return commit_stream(stream_, deadline); }
  void give_up() override { give_up_stream(stream_); }

 private:
  StreamPtr stream_;
};

bool fits_segment(const FragmentCore& core, const FragmentGeometry& geometry) {
  return geometry.data_bytes <= limits::kExtentBytesMax &&
         geometry.total_bytes() <= core.segments->segment_bytes();
}

// Reserves the space; may make a segment or a file. Blocks.
Result<> reserve(const StreamPtr& stream) {
  FragmentCore& core = *stream->core;
  CHECK_OK(core.check_open());
  const std::uint64_t bytes = stream->geometry.total_bytes();
  Result<> result;
  if (fits_segment(core, stream->geometry)) {
    auto span = core.segments->allocate_growing(bytes);
    if (span) stream->span = *span;
    if (!span) result = span.error();
  } else {
    auto temporary = core.files.create(stream->id, bytes);
    if (temporary) stream->temporary = *temporary;
    if (!temporary) result = temporary.error();
  }
  if (!result && result.error().code == Errc::io) core.fail_for_good(result.error());
  return result;
}

}  // namespace

Task<std::unique_ptr<FragmentWriter>> open_fragment_writer(std::shared_ptr<FragmentCore> core,
                                                           FragmentId id, FragmentShape shape,
                                                           Deadline deadline) {
  CO_CHECK(core->check_open());
  if (!core->parts.room.accepts_data()) {
    co_return fail(Errc::full, "volume takes no more fragments");
  }
  auto stream = std::make_shared<Stream>(core, id, std::move(shape));
  const FragmentGeometry& geometry = stream->geometry;
  if (fits_segment(*core, geometry))
    stream->span = core->segments->allocate(geometry.total_bytes());
  if (!stream->span) {
    auto job = [stream] { return reserve(stream); };
    CO_CHECK(
        co_await core->pending->run_on<void>(core->parts.write_worker, std::move(job), deadline));
  }
  if (stream->is_coalesced()) {
    stream->held = core->parts.buffers.get(static_cast<std::size_t>(geometry.total_bytes()));
    stream->table.reserve(static_cast<std::size_t>(geometry.blocks()));
  } else {
    stream->held = core->parts.buffers.get(kGranuleBytes);
  }
  co_return std::unique_ptr<FragmentWriter>(std::make_unique<StreamWriter>(std::move(stream)));
}

}  // namespace penstock
