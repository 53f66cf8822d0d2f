#include "server/volume/acceptor/register_reader.h"

#include "penstock/caught.h"

namespace penstock {
namespace {

bool is_enough(const RegisterRow& row, ReadWant want) {
  return want != ReadWant::value_and_inline || row.inline_size == 0 || row.inline_bytes;
}

Error too_late() { return fail(Errc::timeout, "waited too long for the volume"); }

}  // namespace

std::optional<Result<Accepted>> RegisterReader::read_now(const ReadRequest& request) {
  std::lock_guard lock(core_.mutex);
  if (auto passes = core_.gate(request.round, request.key.bucket); !passes) {
    return Result<Accepted>(std::move(passes).error());
  }
  const RowPtr* row = core_.cache.find(request.key);
  if (row == nullptr || !is_enough(**row, request.want)) return std::nullopt;
  return Result<Accepted>((*row)->accepted(request.want));
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
  std::deque<ReadWork> waiting;
  {
    std::lock_guard lock(mutex_);
    waiting.swap(reads_);
  }
  for (const ReadWork& work : waiting) work.done(why);
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
  RegisterCore::Stamp before{};
  {
    std::lock_guard lock(core_.mutex);
    before = core_.stamp(request.key);
  }
  TRY(row, request.want == ReadWant::value_and_inline ? core_.load_with_inline(request.key)
                                                      : core_.load(request.key));
  std::lock_guard lock(core_.mutex);
  CHECK_OK(core_.gate(request.round, request.key.bucket));
  Accepted answer = row->accepted(request.want);
  core_.fill_cache(request.key, std::move(row), before);
  return answer;
}

void RegisterReader::scan(std::shared_ptr<const ScanRequest> request, Deadline deadline,
                          Completion<ScanReply> done) {
  {
    std::lock_guard lock(mutex_);
    if (scans_ >= kScansMax) {
      done(fail(Errc::overloaded, "too many scans on this volume"));
      return;
    }
    ++scans_;
  }
  worker_.submit([this, request = std::move(request), deadline, done = std::move(done)] {
    Result<ScanReply> reply = fail(Errc::io, "no answer");
    try {
      reply = run_scan(*request, deadline);
    } catch (...) {
      reply = error_of_exception("a scan");
    }
    {
      std::lock_guard lock(mutex_);
      --scans_;
    }
    done(std::move(reply));
  });
}

Result<ScanReply> RegisterReader::run_scan(const ScanRequest& request, Deadline deadline) {
  {
    std::lock_guard lock(core_.mutex);
    CHECK_OK(core_.gate(request.round, request.bucket));
  }
  if (deadline < core_.clock.boot()) return too_late();
  return scan_registers(core_.database, request);
}

}  // namespace penstock
