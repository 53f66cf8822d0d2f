#include "server/volume/fragments/fragment_writer.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <utility>

#include "penstock/assert.h"
#include "penstock/caught.h"
#include "penstock/planted.h"

namespace penstock {
namespace {

// Up to here a fragment that comes in one piece goes to the disk in one write, with others.
constexpr std::uint64_t kSmallBytesMax = limits::kReplicatedBytesMax;

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kGranuleBytes == 0;
}

// Shared by the writer and its jobs: space is given back only when no job can write into it.
struct Stream final : GatheredWrites::Write {
  Stream(std::shared_ptr<FragmentCore> c, FragmentId i, FragmentShape shape)
      : core(std::move(c)), id(i), owner(std::move(shape.owner)), geometry{shape.data_bytes} {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() override {
    if (phase == Phase::committed || row_uncertain) return;
    temporary.file.reset();
    core->discard(span, std::move(temporary.name));
  }

  // Blocks.
  Result<> write(std::uint64_t offset, ConstBytes bytes) {
    CHECK_OK(core->check_open());
    if (!span) return temporary.file->file().write_at(offset, bytes);
    TRY(file, core->segments->file(span->segment));
    return file->file().write_at(span->offset + offset, bytes);
  }
  std::vector<Buffer> begin() override;
  void end(const Result<>& result) override;

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
  std::optional<ExtentRow> row;  // once the tail was made

  // Shared with the jobs.
  std::mutex mutex;
  int in_flight = 0;
  std::optional<Error> failure;
  std::optional<Completion<void>> waiter;  // resumes when a write ends
  bool given_up = false;                   // nobody waits for it any more
  // Pieces that the worker has not begun to write.
  std::list<std::shared_ptr<Buffer>> queued;
  std::vector<Buffer> gathered;  // a small fragment with its tail, likewise
};
using StreamPtr = std::shared_ptr<Stream>;

// Shared with the jobs, which may never end: what the writer needs no more is forgotten here.
void give_up_stream(const StreamPtr& stream) {
  std::list<std::shared_ptr<Buffer>> forgotten;
  std::vector<Buffer> gathered;
  {
    std::lock_guard lock(stream->mutex);
    stream->given_up = true;
    forgotten.swap(stream->queued);
    for (const auto& piece : forgotten) *piece = Buffer();
    gathered.swap(stream->gathered);
  }
  stream->core->pending->give_up(stream.get());
}

// A write that was submitted is over.
void end_write(Stream& stream, const Result<>& result) {
  std::optional<Completion<void>> waiter;
  {
    std::lock_guard lock(stream.mutex);
    --stream.in_flight;
    if (!result && !stream.failure) stream.failure = result.error();
    waiter = std::exchange(stream.waiter, std::nullopt);
  }
  if (waiter) (*waiter)({});
}

Error given_up_error() { return fail(Errc::timeout, "the writer was given up"); }

std::vector<Buffer> Stream::begin() {
  std::vector<Buffer> bytes;
  {
    std::lock_guard lock(mutex);
    bytes.swap(gathered);
  }
  if (bytes.empty()) end_write(*this, given_up_error());
  return bytes;
}

void Stream::end(const Result<>& result) {
  if (!result) core->fail_for_good(result.error());
  end_write(*this, result);
}

void run_write(const StreamPtr& stream, std::uint64_t offset,
               const std::shared_ptr<Buffer>& queued) {
  Result<> result = given_up_error();
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
  end_write(*stream, result);
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

void submit_small(const StreamPtr& stream, std::vector<Buffer> all) {
  {
    std::lock_guard lock(stream->mutex);
    if (stream->given_up) return;
    ++stream->in_flight;
    stream->gathered = std::move(all);
  }
  stream->core->small_writes->add(*stream->span, stream);
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
      if (stream->given_up) outcome = given_up_error();
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
      if (stream->given_up) co_return given_up_error();
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

// What lies behind the whole granules of the data: the rest, zeros, table, footer. Makes the row.
Buffer make_tail(Stream& stream, ConstBytes rest) {
  const FragmentGeometry& geometry = stream.geometry;
  const auto padded =
      static_cast<std::size_t>(geometry.data_bytes % kGranuleBytes > 0 ? kGranuleBytes : 0);
  PENSTOCK_ASSERT(rest.size() <= padded);
  const auto tail = static_cast<std::size_t>(geometry.tail_bytes());
  Buffer last = stream.core->parts.buffers.get(padded + tail);
  const MutBytes bytes = last.mutable_bytes();
  std::ranges::copy(rest, bytes.begin());
  std::memset(bytes.data() + rest.size(), 0, padded - rest.size());
  ExtentRow row;
  row.digest = encode_tail(stream.id, geometry, stream.table, bytes.subspan(padded));
  row.data_bytes = geometry.data_bytes;
  row.owner = stream.owner;
  if (stream.span) {
    row.segment = stream.span->segment;
    row.offset = stream.span->offset;
  } else {
    row.place = FragmentPlace::file;
  }
  stream.row = std::move(row);
  return last;
}

void submit_tail(const StreamPtr& stream, ConstBytes rest) {
  const std::uint64_t offset = stream->geometry.data_bytes / kGranuleBytes * kGranuleBytes;
  submit_write(stream, offset, make_tail(*stream, rest));
}

// Whole granules of a piece, aligned in memory.
Buffer aligned_part(const FragmentCore& core, const Buffer& data, std::size_t bytes) {
  if (is_aligned(data.data())) return data.slice(0, bytes);
  Buffer copy = core.parts.buffers.get(bytes);
  std::memcpy(copy.data(), data.data(), bytes);
  return copy;
}

Task<> append_piece(StreamPtr stream, Buffer data, std::vector<std::uint32_t> crcs,
                    Deadline deadline) {
  CO_CHECK(stream->core->check_open());
  CO_CHECK(accept_piece(*stream, data, crcs));
  const std::uint64_t offset = stream->received;
  stream->received += data.size();
  stream->table.insert(stream->table.end(), crcs.begin(), crcs.end());
  const std::size_t whole = data.size() / kGranuleBytes * kGranuleBytes;
  const ConstBytes rest = data.bytes().subspan(whole);  // of the last piece only
  const std::uint64_t size = stream->geometry.data_bytes;
  if (stream->span && data.size() == size && size <= kSmallBytesMax) {
    std::vector<Buffer> all;
    if (whole > 0) all.push_back(aligned_part(*stream->core, data, whole));
    all.push_back(make_tail(*stream, rest));
    submit_small(stream, std::move(all));
    co_return Result<>{};
  }
  if (whole > 0) {
    constexpr int kOthersMax = limits::kFragmentWritesInFlight - 1;
    const auto admitted = co_await wait_until_in_flight(stream, kOthersMax, deadline);
    if (!admitted) {
      stream->phase = Stream::Phase::failed;
      co_return admitted.error();
    }
    submit_write(stream, offset, aligned_part(*stream->core, data, whole));
  }
  if (stream->received == size && !stream->row) submit_tail(stream, rest);
  co_return Result<>{};
}

// The row that the new one will replace. Blocks. Errors: invalid - the id has other bytes.
Result<std::optional<ExtentRow>> look(const Stream& stream) {
  TRY(old, stream.core->find_row(stream.id));
  const ExtentRow& row = *stream.row;
  if (old && (old->digest != row.digest || old->data_bytes != row.data_bytes)) {
    return fail(Errc::invalid, "fragment " + to_string(stream.id) + " exists with other bytes");
  }
  CHECK_OK(stream.core->check_open());
  return old;
}

// Makes the written bytes durable, on the worker: `looked` is told of the old row, then `outcome`
// is set.
void begin_sync(const StreamPtr& stream, const std::shared_ptr<Outcome>& outcome,
                Completion<std::optional<ExtentRow>> looked) {
  Worker& worker = stream->core->parts.write_worker;
  auto first = [stream, looked = std::move(looked)] {
    Result<std::optional<ExtentRow>> old = std::optional<ExtentRow>();
    try {
      old = look(*stream);
    } catch (...) {
      old = error_of_exception("a commit of a fragment");
    }
    const bool goes_on = bool(old);
    looked(std::move(old));
    return goes_on;
  };
  auto done = [stream, outcome](const Result<>& result) {
    if (!result) stream->core->fail_for_good(result.error());
    outcome->set(result);
  };
  if (stream->span && holds(Rule::fragment_sync)) {
    return stream->core->segments->opened(stream->span->segment)
        ->sync_soon(worker, std::move(first), std::move(done));
  }
  worker.submit([stream, first = std::move(first), done = std::move(done)] {
    if (!first()) return;
    done(stream->span ? Result<>() : stream->core->files.publish(stream->id, stream->temporary));
  });
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
  if (!stream->row) submit_tail(stream, {});
  CO_CHECK(co_await wait_until_in_flight(stream, 0, deadline));
  CO_CHECK(core.check_open());  // the volume may have been closed meanwhile
  if (deadline < core.parts.clock.boot()) co_return fail(Errc::timeout, "commit: too late");
  auto outcome = std::make_shared<Outcome>();
  auto sync = [stream, outcome](Completion<std::optional<ExtentRow>> looked) {
    begin_sync(stream, outcome, std::move(looked));
  };
  CO_TRY(old, co_await core.pending->wait<std::optional<ExtentRow>>(std::move(sync)));
  CO_CHECK(core.check_open());  // the volume may have been closed meanwhile

  core.leases.stamp(*stream->row);
  std::string row = encode(*stream->row);
  stream->row_uncertain = true;
  const Result<> put = co_await core.parts.rows.put(stream->id, std::move(row));
  const Result<> synced = co_await Outcome::wait(outcome, core.pending);
  if (synced && !stream->span) {
    // It has its final name now; without a row that is what must go.
    stream->temporary.name = BigFiles::name_of(stream->id);
  }
  if (!put) {
    const Errc code = put.error().code;
    const bool nothing_written =
        code == Errc::overloaded || code == Errc::full || code == Errc::unavailable;
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
  // The tail was made behind the last byte; if there is none, it is made now.
  const std::uint64_t size = stream->geometry.data_bytes;
  const bool complete = stream->received == size && (stream->row || size == 0);
  if (stream->phase != Stream::Phase::receiving || !complete) {
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
  co_return std::unique_ptr<FragmentWriter>(std::make_unique<StreamWriter>(std::move(stream)));
}

}  // namespace penstock
