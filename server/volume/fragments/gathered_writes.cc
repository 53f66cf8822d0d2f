#include "server/volume/fragments/gathered_writes.h"

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <iterator>
#include <tuple>

#include "penstock/caught.h"

namespace penstock {

void GatheredWrites::add(const ExtentSpan& span, std::shared_ptr<Write> write) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back({span, std::move(write)});
    if (std::exchange(running_, true)) return;
  }
  submit();
}

void GatheredWrites::submit() {
  worker_.submit([self = shared_from_this()] { self->write_waiting(); });
}

void GatheredWrites::write_waiting() {
  std::vector<Waiting> waiting;
  {
    std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
  }
  try {
    write_all(waiting);
  } catch (...) {  // whoever waits must not wait for ever
    const Error error = error_of_exception("writes of fragments");
    for (Waiting& one : waiting) {
      if (one.write) one.write->end(error);
    }
  }
  {
    std::lock_guard lock(mutex_);
    running_ = !waiting_.empty();
    if (!running_) return;
  }
  submit();  // behind what others have submitted meanwhile
}

void GatheredWrites::write_all(std::span<Waiting> waiting) {
  std::ranges::sort(waiting, {}, [](const Waiting& one) {
    return std::tuple(one.span.segment, one.span.offset);
  });
  Run run;
  const auto takes = [&run](const ExtentSpan& next, std::size_t buffers) {
    return next.segment == run.span.segment && next.offset == run.span.offset + run.span.length &&
           run.span.length + next.length <= kCallBytesMax &&
           run.buffers.size() + buffers <= File::kPartsMax;
  };
  for (auto next = waiting.begin(); next != waiting.end(); ++next) {
    std::vector<Buffer> buffers = next->write->begin();
    if (buffers.empty()) next->write.reset();  // a run ends here: its bytes lie in between
    if (!run.of.empty() && !(next->write && takes(next->span, buffers.size()))) {
      write_run(std::exchange(run, Run()));
    }
    if (!next->write) continue;
    if (run.of.empty()) run.span = {next->span.segment, next->span.offset, 0};
    run.span.length += next->span.length;
    std::ranges::move(buffers, std::back_inserter(run.buffers));
    run.of = {next - static_cast<std::ptrdiff_t>(run.of.size()), next + 1};
  }
  if (!run.of.empty()) write_run(std::move(run));
}

void GatheredWrites::write_run(Run run) {
  Result<> result;
  try {
    result = write_bytes(run);
  } catch (...) {
    result = error_of_exception("a write of fragments");
  }
  run.buffers.clear();  // free before anybody goes on
  for (Waiting& one : run.of) std::exchange(one.write, nullptr)->end(result);
}

Result<> GatheredWrites::write_bytes(const Run& run) {
  CHECK_OK(may_write_());
  TRY(file, segments_->file(run.span.segment));
  boost::container::static_vector<ConstBytes, File::kPartsMax> parts;
  for (const Buffer& buffer : run.buffers) parts.push_back(buffer.bytes());
  return file->file().write_parts(run.span.offset, {parts.data(), parts.size()});
}

}  // namespace penstock
