#include "server/blobs/blob_reader.h"

#include "penstock/busy_pause.h"
#include "server/blobs/blob_run.h"

namespace penstock {
namespace {

constexpr std::size_t kWindowMax = 8;  // pieces under way
// The same of a blob that misses fragments. Were all of a stripe asked for before its first unit is
// rebuilt, its others would be read twice.
constexpr std::size_t kWindowToRebuild = 2;

}  // namespace

struct BlobReader::State {
  State(BlobContext& context, std::vector<BlobRange> wanted, bool files, Damaged damaged,
        MemoryAccount account)
      : fetcher(std::make_shared<BlobFetcher>(context, std::move(damaged),
                                              MemoryUser{MemoryUse::reads, account})),
        ranges(std::move(wanted)),
        file_pieces(files) {
    for (const BlobRange& range : ranges) bytes += range.length;
    bytes_left = bytes;
  }

  bool at_end() const { return next_range == ranges.size() && offset == end; }
  Result<> open_range();
  Layout::Run next_run() const;
  void pass(const Layout::Run& run);
  bool has_room(std::uint64_t piece) const;
  Task<> take_memory(Deadline deadline);
  BootTime memory_end(Deadline deadline) const;
  Task<std::optional<Piece>> begin(Deadline deadline);
  Task<std::optional<Piece>> wait_for_front(Deadline deadline);
  void begin_small();
  void seek(std::uint64_t position);
  Result<> fill_window();
  void split_front();
  bool all_late(BootTime now) const;
  BootTime next_look(BootTime now, Deadline deadline) const;

  std::shared_ptr<BlobFetcher> fetcher;
  std::vector<BlobRange> ranges;
  bool file_pieces;
  std::uint64_t bytes = 0;
  std::uint64_t bytes_left = 0;                   // not handed out yet
  std::uint64_t piece_max = limits::kPieceBytes;  // a power of two
  bool grows = false;  // piece_max, if this is not the first piece since it was made small
  // The next byte to ask for.
  std::size_t next_range = 0;
  std::shared_ptr<OpenBlob> open;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;
  std::uint64_t skip = 0;                     // bytes of the next range that were used already
  std::deque<std::unique_ptr<BlobRun>> runs;  // under way, in order
  std::size_t window = 0;                     // 0 = not decided yet
  // Until when the front waits for memory for its columns.
  std::optional<BootTime> columns_until;
};

// Makes offset < end, unless all is asked for.
Result<> BlobReader::State::open_range() {
  while (offset == end && next_range < ranges.size()) {
    const BlobRange& range = ranges[next_range++];
    if (range.length == 0) continue;
    TRY(layout, Layout::make(range.blob.shape));
    if (range.blob.locations.size() != range.blob.shape.slots() ||
        range.length > range.blob.shape.size_bytes ||
        range.offset > range.blob.shape.size_bytes - range.length) {
      return fail(Errc::invalid, "a range passes the end of its blob");
    }
    if (open == nullptr || !(open->blob == range.blob)) {
      open = std::make_shared<OpenBlob>();
      open->blob = range.blob;
      open->layout = layout;
    }
    offset = range.offset + std::exchange(skip, 0);
    end = range.offset + range.length;
  }
  return {};
}

// Cut where pieces of the fragment were appended: whole pieces stay whole.
Layout::Run BlobReader::State::next_run() const {
  Layout::Run run = open->layout.run_at(offset, end);
  const std::uint64_t in_piece = run.unit_offset % piece_max;
  run.length = std::min<std::uint64_t>(run.length, piece_max - in_piece);
  return run;
}

void BlobReader::State::pass(const Layout::Run& run) { offset += run.length; }

// Once bytes are out, giving up would break the answer.
BootTime BlobReader::State::memory_end(Deadline deadline) const {
  if (bytes_left < bytes) return deadline;
  return deadline.capped(fetcher->context.clock.boot() + limits::kMemoryWait);
}

// Large pieces are for few readers: one of 512 KiB while an eighth of the budget can be had, or a
// quarter of what readers have and could have if others hold the rest; half of that while three
// quarters of that can, and so on. So pieces get smaller as readers come, before one of them finds
// nothing. When the first of 256 readers held 1 MiB each, others waited too long. Twice these
// bounds cost a third more with two volumes gone and 16 readers: what those keep counts, too.
bool BlobReader::State::has_room(std::uint64_t piece) const {
  const MemoryBudget& budget = fetcher->context.budget;
  const std::size_t room = budget.room_for(fetcher->user);
  const auto is_enough = [&](std::size_t needed) {
    for (std::uint64_t size = limits::kPieceBytes; size > piece; size /= 2) needed = needed / 4 * 3;
    return room >= needed;
  };
  if (is_enough(budget.limit_bytes() / 8)) return true;
  return is_enough((room + budget.used_bytes(fetcher->user.use)) / 4);
}

// Memory for one piece, which gets as large as there is room for.
Task<> BlobReader::State::take_memory(Deadline deadline) {
  MemoryBudget& budget = fetcher->context.budget;
  MemoryBudget::Lease& memory = fetcher->memory;
  auto wanted = static_cast<std::size_t>(std::min(bytes_left, piece_max));
  if (memory.bytes() >= wanted) co_return Result<>{};
  if (memory.bytes() > 0) {
    const bool larger = has_room(wanted) && memory.grow(wanted - memory.bytes());
    if (!larger) piece_max /= 2;  // as it was
    co_return Result<>{};
  }
  while (wanted > limits::kSmallPieceBytes && !has_room(wanted)) {
    piece_max /= 2;
    wanted = static_cast<std::size_t>(std::min(bytes_left, piece_max));
  }
  auto taken = budget.take(fetcher->user, wanted);
  if (!taken) {
    fetcher->kept.clear();  // it can be read again
    taken = budget.take(fetcher->user, wanted);
  }
  if (!taken && wanted > limits::kSmallPieceBytes) piece_max = limits::kSmallPieceBytes;
  if (!taken) {
    const std::size_t small = std::min(wanted, limits::kSmallPieceBytes);
    Clock& clock = fetcher->context.clock;
    taken = co_await budget.take_patiently(clock, fetcher->user, small, memory_end(deadline));
  }
  if (!taken) co_return std::move(taken).error();
  memory = std::move(taken).value();
  co_return Result<>{};
}

// The next byte to ask for is at `position` of all ranges. Pre: nothing is under way.
void BlobReader::State::seek(std::uint64_t position) {
  next_range = 0;
  offset = end = 0;
  while (position >= ranges[next_range].length) position -= ranges[next_range++].length;
  skip = position;
}

// Gives up what is under way and its memory: what was not handed out comes in small pieces.
void BlobReader::State::begin_small() {
  runs.clear();
  const auto before = std::exchange(fetcher, fetcher->successor());
  before->forget();  // its reads may still run
  window = 0;
  piece_max = limits::kSmallPieceBytes;
  grows = false;
  seek(bytes - bytes_left);
}

// Starts reads until the window is full.
Result<> BlobReader::State::fill_window() {
  if (window == 0 && piece_max == limits::kPieceBytes) {
    MemoryBudget& budget = fetcher->context.budget;
    const auto wanted = static_cast<std::size_t>(
        std::min<std::uint64_t>(bytes_left, kWindowMax * limits::kPieceBytes));
    const std::size_t extra = wanted - std::min(wanted, fetcher->memory.bytes());
    window = extra == 0 ? kWindowMax : 1;
    const auto leaves_room = [&] {
      return budget.room_for(fetcher->user) >= extra + budget.limit_bytes() / 8;
    };
    if (extra > 0 && budget.has_plenty(extra) && leaves_room()) {
      if (auto memory = budget.take(fetcher->user, extra)) {
        fetcher->window_memory = std::move(memory).value();
        window = kWindowMax;
      }
    }
  }
  while (runs.size() < std::max<std::size_t>(window, 1)) {
    CHECK_OK(open_range());
    if (offset == end) break;
    if (runs.size() >= kWindowToRebuild && fetcher->misses_fragments(*open)) break;
    const Layout::Run run = next_run();
    runs.push_back(std::make_unique<BlobRun>(fetcher, open, run, end, file_pieces));
    pass(run);
    // What it has to rebuild with is of use to the runs behind it, too.
    runs.back()->look(fetcher->context.clock.boot(), false);
  }
  return {};
}

// Corrupt blocks of several fragments within one run: each half may still have k good columns.
void BlobReader::State::split_front() {
  const auto whole = std::move(runs.front());
  runs.pop_front();
  Layout::Run first = whole->run();
  const std::uint64_t middle = first.unit_offset + first.length / 2;
  const std::uint64_t cut =
      std::max(middle / limits::kBlockBytes * limits::kBlockBytes,
               (first.unit_offset / limits::kBlockBytes + 1) * limits::kBlockBytes);
  Layout::Run second = first;
  first.length = cut - first.unit_offset;
  second.unit_offset += first.length;
  second.fragment_offset += first.length;
  second.blob_offset += first.length;
  second.length -= first.length;
  runs.push_front(std::make_unique<BlobRun>(fetcher, whole->open(), second, 0, file_pieces));
  runs.push_front(std::make_unique<BlobRun>(fetcher, whole->open(), first, 0, file_pieces));
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
                       Damaged damaged, MemoryAccount account)
    : state_(std::make_shared<State>(context, std::move(ranges), file_pieces, std::move(damaged),
                                     account)) {}

BlobReader::~BlobReader() { state_->fetcher->forget(); }

void BlobReader::put_back(std::uint64_t count) {
  State& state = *state_;
  state.bytes_left += count;
  if (state.bytes_left == 0) {
    state.fetcher = state.fetcher->successor();
    return;
  }
  state.open = nullptr;  // what was lost may be there when it is asked for again
  state.begin_small();
}

const std::vector<BlobRange>& BlobReader::ranges() const { return state_->ranges; }

// Nothing is under way: what volumes have in memory comes at once. Empty: it does not.
Task<std::optional<Piece>> BlobReader::State::begin(Deadline deadline) {
  CO_CHECK(open_range());
  if (at_end()) co_return std::optional<Piece>(Piece{});
  // The piece before this one was used up.
  if (std::exchange(grows, true) && piece_max < limits::kPieceBytes) piece_max *= 2;
  CO_CHECK(co_await take_memory(deadline));
  const Layout::Run run = next_run();
  auto piece = fetcher->take_kept(*open, run, run.slot);
  if (!piece) {
    piece = fetcher->read_now(*open, run.slot, run.fragment_offset, run.length, file_pieces);
    if (piece) fetcher->keep_to_rebuild(*open, run, end, *piece);
  }
  if (piece) {
    pass(run);
    co_return piece;
  }
  if (!fetcher->executor) fetcher->executor = co_await boost::asio::this_coro::executor;
  fetcher->trace = deadline.trace();
  co_return std::optional<Piece>{};
}

// Empty: begin() again.
Task<std::optional<Piece>> BlobReader::State::wait_for_front(Deadline deadline) {
  Clock& clock = fetcher->context.clock;
  while (true) {
    CO_CHECK(fill_window());
    const BootTime now = clock.boot();
    const bool hedge_allowed = !all_late(now);
    for (const auto& run : runs) run->look(now, hedge_allowed);
    BlobRun& front = *runs.front();
    if (front.can_split()) {
      split_front();
      continue;
    }
    if (front.done()) {
      auto piece = front.take();
      runs.pop_front();
      columns_until.reset();
      if (!piece) co_return std::move(piece).error();
      co_return std::optional<Piece>(std::move(*piece));
    }
    BootTime next = next_look(now, deadline);
    if (front.wants_memory()) {
      if (front.run().length > limits::kSmallPieceBytes) {
        begin_small();
        co_return std::optional<Piece>{};
      }
      fetcher->kept.clear();  // it can be read again
      if (!columns_until) columns_until = memory_end(deadline);
      if (now >= *columns_until) co_return fail(Errc::overloaded, "no memory to rebuild bytes");
      next = std::min(next, now + busy_pause(fetcher->context.random.next()));
    }
    if (now >= deadline) co_return fail(Errc::timeout, "fragments were not read in time");
    co_await fetcher->wakeup.wait(clock, next);
  }
}

Task<Piece> BlobReader::next(Deadline deadline) {
  const auto state = state_;
  while (true) {
    std::optional<Piece> piece;
    if (state->runs.empty()) {
      CO_TRY(there, co_await state->begin(deadline));
      piece = std::move(there);
    }
    if (!piece) {
      CO_TRY(read, co_await state->wait_for_front(deadline));
      piece = std::move(read);
    }
    if (!piece) continue;
    state->bytes_left -= piece->length;
    co_return std::move(*piece);
  }
}

Task<std::string> read_blob(BlobContext& context, const BlobRef& blob, Deadline deadline) {
  const std::uint64_t size = blob.shape.size_bytes;
  CO_TRY(memory, context.budget.take(static_cast<std::size_t>(size)));
  std::vector<BlobRange> ranges(1);
  ranges[0].blob = blob;
  ranges[0].length = size;
  BlobReader reader(context, std::move(ranges), false, nullptr, MemoryAccount{});
  std::string text;
  text.reserve(static_cast<std::size_t>(size));
  while (text.size() < size) {
    CO_TRY(piece, co_await reader.next(deadline));
    text.append(as_text(piece.bytes()));
  }
  co_return text;
}

}  // namespace penstock
