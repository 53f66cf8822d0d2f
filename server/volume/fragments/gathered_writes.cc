#include "server/volume/fragments/gathered_writes.h"

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <iterator>

#include "penstock/assert.h"
#include "penstock/caught.h"

namespace penstock {

void GatheredWrites::add(const ExtentSpan& span, std::shared_ptr<Write> write) {
  {
    std::lock_guard lock(mutex_);
    if (abandoned_) return;
    waiting_.emplace(Place{span.segment, span.offset}, Waiting{span, std::move(write)});
    if (std::exchange(running_, true)) return;
  }
  submit();
}

void GatheredWrites::abandon() {
  std::map<Place, Waiting> forgotten;
  {
    std::lock_guard lock(mutex_);
    abandoned_ = true;
    forgotten.swap(waiting_);
  }
  for (auto& [place, one] : forgotten) (void)one.write->begin();  // whose bytes go with that
}

void GatheredWrites::submit() {
  try {
    worker_.submit([self = shared_from_this()] { self->write_some(); });
  } catch (...) {  // the next one that comes takes these along
    std::lock_guard lock(mutex_);
    running_ = false;
    throw;
  }
}

void GatheredWrites::write_some() {
  std::vector<Waiting> taken;
  try {
    taken = take_neighbours();
    write_all(taken);
  } catch (...) {  // whoever waits must not wait for ever
    const Error error = error_of_exception("writes of fragments");
    for (Waiting& one : taken) end(one, error);
  }
  {
    std::lock_guard lock(mutex_);
    running_ = !waiting_.empty();
    if (!running_) return;
  }
  submit();  // behind what others have submitted meanwhile
}

std::vector<GatheredWrites::Waiting> GatheredWrites::take_neighbours() {
  std::vector<Waiting> taken;
  taken.reserve(kCallWritesMax);
  std::lock_guard lock(mutex_);
  auto next = waiting_.lower_bound(next_);
  if (next == waiting_.end()) next = waiting_.begin();
  std::uint64_t bytes = 0;
  while (next != waiting_.end() && taken.size() < kCallWritesMax) {
    const ExtentSpan& span = next->second.span;
    const bool adjoins = taken.empty() || next->first == next_;
    if (!adjoins || (!taken.empty() && bytes + span.length > kCallBytesMax)) break;
    bytes += span.length;
    next_ = {span.segment, span.offset + span.length};
    taken.push_back(std::move(next->second));
    next = waiting_.erase(next);
  }
  return taken;
}

void GatheredWrites::write_all(std::span<Waiting> taken) {
  std::size_t first = 0;  // of the run
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    std::vector<Buffer> more = taken[i].write->begin();
    PENSTOCK_ASSERT(more.size() <= kBuffersMax);
    std::ranges::move(more, std::back_inserter(buffers));
    if (!more.empty()) continue;
    taken[i].write.reset();  // its bytes lie in between: a run ends here
    write_run(taken.subspan(first, i - first), std::exchange(buffers, {}));
    first = i + 1;
  }
  write_run(taken.subspan(first), std::move(buffers));
}

void GatheredWrites::write_run(std::span<Waiting> run, std::vector<Buffer> buffers) {
  if (run.empty()) return;
  Result<> result;
  try {
    result = write_bytes(run.front().span, buffers);
  } catch (...) {
    result = error_of_exception("a write of fragments");
  }
  buffers.clear();  // free before anybody goes on
  for (Waiting& one : run) end(one, result);
}

Result<> GatheredWrites::write_bytes(const ExtentSpan& first, const std::vector<Buffer>& buffers) {
  CHECK_OK(may_write_());
  TRY(file, segments_->file(first.segment));
  boost::container::static_vector<ConstBytes, File::kPartsMax> parts;
  for (const Buffer& buffer : buffers) parts.push_back(buffer.bytes());
  return file->file().write_parts(first.offset, {parts.data(), parts.size()});
}

// Once for each.
void GatheredWrites::end(Waiting& one, const Result<>& result) {
  const auto write = std::exchange(one.write, nullptr);
  if (!write) return;
  try {
    write->end(result);
  } catch (...) {
    report_exception("the end of a write of a fragment");
  }
}

}  // namespace penstock
