#include "server/blobs/blob_writer.h"

#include "penstock/assert.h"
#include "penstock/limits.h"
#include "penstock/md5_service.h"
#include "server/blobs/blob_context.h"
#include "server/blobs/blob_fragments.h"
#include "server/blobs/blob_places.h"
#include "server/blobs/blob_stripes.h"

namespace penstock {
namespace {

constexpr std::size_t kDataPiecesFew = 3;
constexpr std::size_t kDataPiecesMany = 8;
constexpr std::size_t kDataPiecesAll = SIZE_MAX;  // there is memory for all bytes

std::size_t whole_blocks(std::uint64_t bytes) {
  return static_cast<std::size_t>((bytes + limits::kBlockBytes - 1) / limits::kBlockBytes *
                                  limits::kBlockBytes);
}

// More pieces make a lone upload faster where disks answer late. Of eight at a time those that came
// first had them, and the others took two and a half times as long.
bool is_one_of_few(const MemoryBudget& budget, std::size_t extra) {
  return budget.used_bytes() + extra <= budget.limit_bytes() / 8;
}

std::size_t parity_bytes(const Layout& layout) {
  const BlobShape& shape = layout.shape();
  return shape.k == 1 ? 0 : static_cast<std::size_t>(shape.m * layout.unit_bytes(0));
}

}  // namespace

struct BlobWriter::State {
  State(BlobContext& c, std::shared_ptr<BlobFragments> f, StripeBuilder b, MemoryAccount a)
      : context(c), fragments(std::move(f)), builder(std::move(b)), user{MemoryUse::writes, a} {}

  bool has_room() const {
    const PiecesUnderWay& under_way = builder.under_way();
    if (under_way.data >= data_pieces_max) return false;
    const std::size_t earlier = (stripes_max - 1) * builder.parity_pieces_per_stripe();
    return !builder.at_stripe_start() || under_way.parity <= earlier;
  }

  BlobContext& context;
  std::shared_ptr<BlobFragments> fragments;
  StripeBuilder builder;
  const MemoryUser user;
  std::size_t data_pieces_max = kDataPiecesFew;
  std::size_t stripes_max = 1;
  bool committed = false;

  // Whoever has the first part never waits for memory again: uploads cannot wait for each other.
  Task<> take_memory(Layout layout) {
    const std::uint64_t size = layout.shape().size_bytes;
    const std::size_t few = kDataPiecesFew * limits::kPieceBytes;
    const std::size_t many = kDataPiecesMany * limits::kPieceBytes;
    const std::size_t parity = parity_bytes(layout);
    const std::size_t hashed = Md5Stream::kPiecesLater * limits::kPieceBytes;  // the caller's
    const bool all_fits = size <= few + hashed;
    const std::size_t stripes = all_fits ? layout.stripe_count() : 1;
    const std::size_t all = std::min(whole_blocks(size), few + hashed) + stripes * parity;
    const BootTime until = context.clock.boot() + limits::kWriteMemoryWait;
    CO_TRY(base, co_await context.budget.take_patiently(context.clock, user, all, until));
    fragments->keep(std::move(base));
    if (all_fits) {
      data_pieces_max = kDataPiecesAll;
      stripes_max = stripes;
      co_return Result<>{};
    }
    const std::size_t extra =
        std::min(whole_blocks(size), many) - few + (layout.stripe_count() > 1 ? parity : 0);
    if (!is_one_of_few(context.budget, extra)) co_return Result<>{};
    auto more = context.budget.take(user, extra);
    if (!more) co_return Result<>{};
    fragments->keep(std::move(more).value());
    data_pieces_max = kDataPiecesMany;
    stripes_max = 2;
    co_return Result<>{};
  }

  // One attempt per layout: each failed one leaves at least one volume more in `failed`.
  static Task<std::shared_ptr<State>> start(BlobContext* context, FragmentOwner owner,
                                            std::uint64_t size_bytes, bool replicated,
                                            Deadline deadline, MemoryAccount account) {
    PENSTOCK_ASSERT(size_bytes > 0);
    const auto executor = co_await boost::asio::this_coro::executor;
    Skipped failed;
    context->membership.probe_suspects(executor);
    while (true) {
      const auto write_id = context->random.id128<WriteId>();
      CO_TRY(placed, place_blob(*context, write_id, size_bytes, replicated, failed));
      CO_TRY(codec, context->codecs.get(placed.layout.shape().k, placed.layout.shape().m));
      auto fragments = std::make_shared<BlobFragments>(*context, executor, owner, placed.layout,
                                                       write_id, placed.volumes);
      auto state = std::make_shared<State>(
          *context, fragments, StripeBuilder(placed.layout, write_id, codec, context->buffers),
          account);
      state->builder.under_way().given_back = fragments->notifier();
      CO_CHECK(co_await state->take_memory(placed.layout));
      auto opened = co_await fragments->open(deadline);
      const Skipped dropped = fragments->dropped();
      if (opened && dropped.empty()) co_return state;
      fragments->abandon();
      if (dropped.empty()) co_return std::move(opened).error();
      failed.insert(failed.end(), dropped.begin(), dropped.end());
    }
  }
};

BlobWriter::BlobWriter(std::shared_ptr<State> state) : state_(std::move(state)) {}

BlobWriter::~BlobWriter() {
  if (!state_->committed) state_->fragments->abandon();
}

Task<std::unique_ptr<BlobWriter>> BlobWriter::open(BlobContext& context, FragmentOwner owner,
                                                   std::uint64_t size_bytes, bool replicated,
                                                   Deadline deadline, MemoryAccount account) {
  CO_TRY(state, co_await State::start(&context, std::move(owner), size_bytes, replicated, deadline,
                                      account));
  co_return std::unique_ptr<BlobWriter>(new BlobWriter(std::move(state)));
}

Task<Buffer> BlobWriter::space() {
  const auto state = state_;
  CO_CHECK(state->fragments->check());
  if (state->builder.at_piece_start() && !state->has_room()) {
    std::function<bool()> enough = [raw = state.get()] { return raw->has_room(); };
    const Deadline deadline = state->context.clock.boot() + limits::kOperationDeadline;
    CO_CHECK(co_await state->fragments->wait_for(std::move(enough), deadline));
  }
  co_return state->builder.space();
}

Task<> BlobWriter::filled(std::size_t count) {
  for (FragmentPiece& piece : state_->builder.filled(count)) {
    state_->fragments->append(std::move(piece));
  }
  co_return state_->fragments->check();
}

Task<BlobRef> BlobWriter::commit(Deadline deadline) {
  const auto state = state_;
  PENSTOCK_ASSERT(state->builder.bytes_left() == 0);
  CO_CHECK(co_await state->fragments->commit(deadline));
  state->committed = true;
  co_return state->fragments->blob();
}

Awaitable<void> BlobWriter::discard() {
  const auto state = state_;
  co_await state->fragments->remove_all();
}

Task<std::vector<FragmentId>> BlobWriter::ensure_leases(const BlobRef& blob, Deadline deadline) {
  const auto fragments = state_->fragments;
  BlobRef copy = blob;
  co_return co_await fragments->ensure_leases(std::move(copy), deadline);
}

Task<std::vector<FragmentId>> WriterLease::ensure(Deadline deadline) {
  CO_TRY(lost, co_await writer_.ensure_leases(blob_, deadline));
  leave_out(blob_, lost);
  co_return lost;
}

}  // namespace penstock
