#include "server/cluster/blob_reader.h"

#include <cassert>

#include "server/cluster/blob_run.h"

namespace penstock {
namespace {

constexpr std::size_t kWindowMax = 4;  // pieces under way

}  // namespace

struct BlobReader::State {
  State(BlobContext& context, std::vector<BlobRange> wanted, bool files, Damaged damaged)
      : fetcher(std::make_shared<BlobFetcher>(context, std::move(damaged))),
        ranges(std::move(wanted)),
        file_pieces(files) {
    for (const BlobRange& range : ranges) bytes_left += range.length;
  }

  bool at_end() const { return next_range == ranges.size() && offset == end; }
  Result<> open_range();
  Layout::Run next_run() const;
  void pass(const Layout::Run& run);
  Result<> take_memory();
  Result<> fill_window();
  void split_front();
  bool all_late(BootTime now) const;
  BootTime next_look(BootTime now, Deadline deadline) const;

  std::shared_ptr<BlobFetcher> fetcher;
  std::vector<BlobRange> ranges;
  bool file_pieces;
  std::uint64_t bytes_left = 0;  // not handed out yet
  // The next byte to ask for.
  std::size_t next_range = 0;
  std::shared_ptr<OpenBlob> open;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;
  std::deque<std::unique_ptr<BlobRun>> runs;  // under way, in order
  std::size_t window = 0;                     // 0 = memory was not taken yet
};

// Makes offset < end, unless all is asked for.
Result<> BlobReader::State::open_range() {
  while (offset == end && next_range < ranges.size()) {
    BlobRange& range = ranges[next_range++];
    if (range.length == 0) continue;
    TRY(layout, Layout::make(range.blob.shape));
    if (range.blob.locations.size() != range.blob.shape.slots() ||
        range.length > range.blob.shape.size_bytes ||
        range.offset > range.blob.shape.size_bytes - range.length) {
      return fail(Errc::invalid, "a range passes the end of its blob");
    }
    open = std::make_shared<OpenBlob>();
    open->blob = std::move(range.blob);
    open->layout = layout;
    offset = range.offset;
    end = range.offset + range.length;
  }
  return {};
}

// Cut where pieces of the fragment were appended: whole pieces stay whole.
Layout::Run BlobReader::State::next_run() const {
  Layout::Run run = open->layout.run_at(offset, end);
  const std::uint64_t in_piece = run.unit_offset % limits::kPieceBytes;
  run.length = std::min<std::uint64_t>(run.length, limits::kPieceBytes - in_piece);
  return run;
}

void BlobReader::State::pass(const Layout::Run& run) { offset += run.length; }

Result<> BlobReader::State::take_memory() {
  MemoryBudget& budget = fetcher->context.budget;
  if (fetcher->memory.bytes() > 0) return {};
  const auto piece = std::min<std::uint64_t>(bytes_left, limits::kPieceBytes);
  TRY(memory, budget.take(static_cast<std::size_t>(piece)));
  fetcher->memory = std::move(memory);
  return {};
}

// Starts reads until the window is full.
Result<> BlobReader::State::fill_window() {
  if (window == 0) {
    MemoryBudget& budget = fetcher->context.budget;
    const auto wanted = static_cast<std::size_t>(
        std::min<std::uint64_t>(bytes_left, kWindowMax * limits::kPieceBytes));
    const std::size_t extra = wanted - std::min(wanted, fetcher->memory.bytes());
    window = extra == 0 ? kWindowMax : 1;
    if (extra > 0 && budget.used_bytes() + extra <= budget.limit_bytes() / 2) {
      if (auto memory = budget.take(extra)) {
        fetcher->window_memory = std::move(memory).value();
        window = kWindowMax;
      }
    }
  }
  while (runs.size() < window) {
    CHECK_OK(open_range());
    if (offset == end) break;
    const Layout::Run run = next_run();
    runs.push_back(std::make_unique<BlobRun>(fetcher, open, run, file_pieces));
    pass(run);
  }
  return {};
}

// Corrupt blocks of several fragments within one run: each half may still have k good columns.
void BlobReader::State::split_front() {
  const auto whole = std::move(runs.front());
  runs.pop_front();
  Layout::Run first = whole->run();
  const std::uint64_t middle = first.unit_offset + first.length / 2;
  const std::uint64_t cut = std::max(middle / limits::kBlockBytes * limits::kBlockBytes,
                                     (first.unit_offset / limits::kBlockBytes + 1) *
                                         limits::kBlockBytes);
  Layout::Run second = first;
  first.length = cut - first.unit_offset;
  second.unit_offset += first.length;
  second.fragment_offset += first.length;
  second.blob_offset += first.length;
  second.length -= first.length;
  runs.push_front(std::make_unique<BlobRun>(fetcher, whole->open(), second, file_pieces));
  runs.push_front(std::make_unique<BlobRun>(fetcher, whole->open(), first, file_pieces));
}

// Two volumes or more are asked, and none of them answers in time.
bool BlobReader::State::all_late(BootTime now) const {
  std::optional<VolumeId> one;
  bool several = false;
  for (const auto& run : runs) {
    const auto volume = run->waits_for();
    if (!volume) continue;
    if (!run->late_volume(now)) return false;
    several = several || (one && *one != *volume);
    one = volume;
  }
  return several;
}

BootTime BlobReader::State::next_look(BootTime now, Deadline deadline) const {
  BootTime next = deadline;
  for (const auto& run : runs) {
    if (!run->done()) next = std::min(next, run->next_look(now));
  }
  return next;
}

BlobReader::BlobReader(BlobContext& context, std::vector<BlobRange> ranges, bool file_pieces,
                       Damaged damaged)
    : state_(std::make_shared<State>(context, std::move(ranges), file_pieces, std::move(damaged))) {
}

BlobReader::~BlobReader() { state_->fetcher->forget(); }

Task<Piece> BlobReader::next(Deadline deadline) {
  const auto state = state_;
  if (state->runs.empty()) {
    CO_CHECK(state->open_range());
    if (state->at_end()) co_return Piece{};
    CO_CHECK(state->take_memory());
    const Layout::Run run = state->next_run();
    auto piece = state->fetcher->read_now(*state->open, run.slot, run.fragment_offset, run.length,
                                          state->file_pieces);
    if (piece) {
      state->pass(run);
      state->bytes_left -= run.length;
      co_return std::move(*piece);
    }
    if (!state->fetcher->executor) {
      state->fetcher->executor = co_await boost::asio::this_coro::executor;
    }
  }
  Clock& clock = state->fetcher->context.clock;
  while (true) {
    CO_CHECK(state->fill_window());
    const BootTime now = clock.boot();
    const bool hedge_allowed = !state->all_late(now);
    for (const auto& run : state->runs) run->look(now, hedge_allowed);
    BlobRun& front = *state->runs.front();
    if (front.can_split()) {
      state->split_front();
      continue;
    }
    if (front.done()) {
      auto piece = front.take();
      state->runs.pop_front();
      if (piece) state->bytes_left -= piece->length;
      co_return piece;
    }
    if (now >= deadline) co_return fail(Errc::timeout, "fragments were not read in time");
    co_await state->fetcher->wakeup.wait(clock, state->next_look(now, deadline));
  }
}

Task<std::string> read_blob(BlobContext& context, const BlobRef& blob, Deadline deadline) {
  const std::uint64_t size = blob.shape.size_bytes;
  CO_TRY(memory, context.budget.take(static_cast<std::size_t>(size)));
  std::vector<BlobRange> ranges(1);
  ranges[0].blob = blob;
  ranges[0].length = size;
  BlobReader reader(context, std::move(ranges), false, nullptr);
  std::string text;
  text.reserve(static_cast<std::size_t>(size));
  while (text.size() < size) {
    CO_TRY(piece, co_await reader.next(deadline));
    text.append(as_text(piece.bytes()));
  }
  co_return text;
}

}  // namespace penstock
