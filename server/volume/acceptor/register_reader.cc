#include "server/volume/acceptor/register_reader.h"

#include "penstock/caught.h"

namespace penstock {
namespace {

bool wants_inline(const RegisterRow& row, ReadWant want) {
  return want == ReadWant::value_and_inline && row.inline_size > 0;
}

Error too_late() { return fail(Errc::timeout, "waited too long for the volume"); }

}  // namespace

// A row that is read now and replaced meanwhile is the answer all the same: it was the row behind
// the call's begin.
std::optional<Result<Accepted>> RegisterReader::read_now(const ReadRequest& request) {
  const RegisterKey& key = request.key;
  TRY(kept, core_.rows.find(request.round, key));
  const bool cached = kept.row != nullptr;
  RowPtr row = std::move(kept.row);
  if (cached && !wants_inline(*row, request.want)) {
    return Result<Accepted>(row->accepted(request.want));
  }
  if (!cached) row = core_.load_now(key);
  if (!row) return std::nullopt;
  Accepted answer = row->accepted(request.want);
  if (wants_inline(*row, request.want)) {
    answer.inline_bytes = core_.load_inline_now(*row);
    if (!answer.inline_bytes) return std::nullopt;
  }
  if (cached) row = nullptr;
  CHECK_OK(core_.rows.pass(request.round, key, std::move(row), kept.stamp));
  return Result<Accepted>(std::move(answer));
}

bool RegisterReader::holds_now(const ReadRequest& request, const Ballot& ballot) {
  const auto known = core_.rows.holds_ballot(request.round, request.key, ballot);
  return known && *known;
}

void RegisterReader::read(std::shared_ptr<const ReadRequest> request, Deadline deadline,
                          Completion<Accepted> done) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    if (reads_.size() >= limits::kVolumeQueueMax) {
      done(fail(Errc::overloaded, "the volume's read queue is full"));
      return;
    }
    reads_.push_back({std::move(request), deadline, std::move(done)});
    wake = !std::exchange(reading_, true);
  }
  if (wake) worker_.submit([this] { run_reads(); });
}

void RegisterReader::abandon(const Error& why) {
  std::deque<ReadWork> reads;
  std::deque<ScanWork> scans;
  {
    std::lock_guard lock(mutex_);
    reads.swap(reads_);
    scans.swap(scans_);
  }
  for (const ReadWork& work : reads) work.done(why);
  for (const ScanWork& work : scans) work.done(why);
}

void RegisterReader::run_reads() {
  while (true) {
    std::deque<ReadWork> works;
    {
      std::lock_guard lock(mutex_);
      works.swap(reads_);
      if (works.empty()) {
        reading_ = false;
        return;
      }
    }
    for (ReadWork& work : works) {
      if (work.deadline < core_.clock.boot()) {
        work.done(too_late());
      } else {
        work.done(read_row_contained(*work.request));
      }
    }
  }
}

Result<Accepted> RegisterReader::read_row_contained(const ReadRequest& request) {
  try {
    return read_row(request);
  } catch (...) {
    return error_of_exception("a read of a row");
  }
}

Result<Accepted> RegisterReader::read_row(const ReadRequest& request) {
  if (auto now = read_now(request)) return std::move(*now);  // another call fetched it
  const RegisterParts::Stamp before = core_.rows.find(request.key).stamp;
  RegisterCore::RowWithInline loaded;
  if (request.want == ReadWant::value_and_inline) {
    TRY(whole, core_.load_with_inline(request.key));
    loaded = std::move(whole);
  } else {
    TRY(row, core_.load(request.key));
    loaded.row = std::move(row);
  }
  Accepted answer = loaded.row->accepted(request.want);
  answer.inline_bytes = std::move(loaded.inline_bytes);
  CHECK_OK(core_.rows.pass(request.round, request.key, std::move(loaded.row), before));
  return answer;
}

void RegisterReader::scan(std::shared_ptr<const ScanRequest> request, Deadline deadline,
                          Completion<ScanReply> done) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    if (scans_.size() >= limits::kVolumeQueueMax) {
      done(fail(Errc::overloaded, "the volume's queue of scans is full"));
      return;
    }
    scans_.push_back({std::move(request), deadline, std::move(done)});
    wake = !std::exchange(scanning_, true);
  }
  if (wake) worker_.submit([this] { run_scans(); });
}

void RegisterReader::run_scans() {
  while (true) {
    std::optional<ScanWork> work;
    {
      std::lock_guard lock(mutex_);
      if (scans_.empty()) {
        scanning_ = false;
        return;
      }
      work.emplace(std::move(scans_.front()));
      scans_.pop_front();
    }
    work->done(run_scan_contained(*work));
  }
}

Result<ScanReply> RegisterReader::run_scan_contained(const ScanWork& work) {
  try {
    return run_scan(*work.request, work.deadline);
  } catch (...) {
    return error_of_exception("a scan");
  }
}

Result<ScanReply> RegisterReader::run_scan(const ScanRequest& request, Deadline deadline) {
  {
    const CountedLock lock(core_.mutex);
    CHECK_OK(core_.gate(request.round, request.bucket));
  }
  if (deadline < core_.clock.boot()) return too_late();
  return scan_registers(core_.database, request);
}

}  // namespace penstock
