#include "server/blobs/blob_fetch.h"

#include <algorithm>
#include <boost/asio/detached.hpp>

#include "penstock/assert.h"
#include "penstock/busy_pause.h"
#include "penstock/caught.h"

namespace penstock {
namespace {

FragmentReadRequest request_for(const OpenBlob& open, std::uint32_t slot, std::uint64_t offset,
                                std::uint64_t length, bool file_allowed) {
  FragmentReadRequest request;
  request.id = open.blob.fragment(slot);
  request.offset = offset;
  request.length = length;
  request.file_allowed = file_allowed;
  return request;
}

std::shared_ptr<Fetch> failed(std::uint32_t slot, Errc code, std::string why) {
  auto fetch = std::make_shared<Fetch>();
  fetch->slot = slot;
  fetch->result.emplace(fail(code, std::move(why)));
  return fetch;
}

bool is_busy(const Result<Piece>& answer) {
  return !answer && answer.error().code == Errc::overloaded;
}

}  // namespace

std::uint64_t stored_columns(const OpenBlob& open, const Layout::Run& run, std::uint32_t unit) {
  const std::uint64_t stored = open.layout.stored_bytes(run.stripe, unit);
  return stored <= run.unit_offset ? 0 : std::min(stored - run.unit_offset, run.length);
}

bool comes_later(const OpenBlob& open, const Layout::Run& run, std::uint64_t end,
                 std::uint32_t unit) {
  if (unit <= run.unit || unit >= open.blob.shape.k) return false;
  const std::uint64_t ahead = (unit - run.unit) * open.layout.unit_bytes(run.stripe);
  return run.blob_offset + ahead < end && stored_columns(open, run, unit) == run.length;
}

std::shared_ptr<BlobFetcher> BlobFetcher::successor() {
  auto fetcher = std::make_shared<BlobFetcher>(context, std::move(damaged_), user);
  damaged_ = nullptr;
  fetcher->executor = executor;
  return fetcher;
}

std::optional<Piece> BlobFetcher::read_now(const OpenBlob& open, std::uint32_t slot,
                                           std::uint64_t offset, std::uint64_t length,
                                           bool file_allowed) {
  if (open.lost[slot] || context.membership.suspect(open.blob.locations[slot].volume)) {
    return std::nullopt;
  }
  const auto client = context.membership.volume(open.blob.locations[slot].volume);
  if (client == nullptr) return std::nullopt;
  auto answer = client->read_fragment_now(request_for(open, slot, offset, length, file_allowed));
  if (!answer || !*answer) return std::nullopt;
  context.hedges.earn();
  return std::move(*answer).value();
}

std::optional<Piece> BlobFetcher::take_kept(const OpenBlob& open, const Layout::Run& run,
                                            std::uint32_t slot) {
  return kept.take(open.blob.fragment(slot), open.layout.fragment_offset(run.stripe),
                   run.fragment_offset, run.length);
}

void BlobFetcher::keep_to_rebuild(const OpenBlob& open, const Layout::Run& run, std::uint64_t end,
                                  const Piece& piece) {
  if (piece.memory.size() == 0) return;
  for (std::uint32_t unit = run.unit + 1; unit < open.blob.shape.k; ++unit) {
    if (!comes_later(open, run, end, unit)) return;
    if (!is_out(open, open.layout.slot_of_unit(run.stripe, unit))) continue;
    if (!may_keep()) return;
    auto lease = context.budget.take(user, run.length);
    if (lease) {
      kept.keep({{open.blob.fragment(run.slot), run.fragment_offset, piece}}, std::move(*lease));
    }
    return;
  }
}

// What readers keep can be more than they need to rebuild a piece: many of them would leave nothing
// for that.
bool BlobFetcher::may_keep() const {
  const MemoryBudget& budget = context.budget;
  return budget.has_some() && budget.room_for(user) >= budget.limit_bytes() / 32;
}

bool BlobFetcher::is_out(const OpenBlob& open, std::uint32_t slot) const {
  const VolumeId volume = open.blob.locations[slot].volume;
  return open.lost[slot] || volume.value == 0 || context.membership.suspect(volume) ||
         context.membership.volume(volume) == nullptr;
}

bool BlobFetcher::misses_fragments(const OpenBlob& open) const {
  for (std::uint32_t slot = 0; slot < open.layout.shape().slots(); ++slot) {
    if (is_out(open, slot)) return true;
  }
  return false;
}

std::shared_ptr<Fetch> BlobFetcher::fetch(OpenBlob& open, std::uint32_t slot, std::uint64_t offset,
                                          std::uint64_t length, bool file_allowed) {
  PENSTOCK_ASSERT(executor);
  if (open.lost[slot]) return failed(slot, *open.lost[slot], "the fragment failed before");
  const VolumeId volume = open.blob.locations[slot].volume;
  if (volume.value == 0) return failed(slot, Errc::not_found, "the fragment was never written");
  auto client = context.membership.volume(volume);
  if (client == nullptr) return failed(slot, Errc::unavailable, "the volume is not connected");
  FragmentReadRequest request = request_for(open, slot, offset, length, file_allowed);
  auto fetch = std::make_shared<Fetch>();
  fetch->slot = slot;
  fetch->volume = volume;
  context.hedges.earn();
  const bool suspect = context.membership.suspect(volume);
  if (suspect) context.membership.probe_suspects(*executor);
  auto answer = suspect ? std::nullopt : client->read_fragment_now(request);
  if (answer && !is_busy(*answer)) {
    fetch->result.emplace(std::move(*answer));
    return fetch;
  }
  fetch->began = context.clock.boot();
  const Deadline deadline(fetch->began + limits::kOperationDeadline, trace);
  boost::asio::co_spawn(
      *executor, run(shared_from_this(), fetch, std::move(client), std::move(request), deadline),
      boost::asio::detached);
  return fetch;
}

// A volume with too much to do is asked again: the columns of others would be several reads in the
// place of one, and those volumes may have as much to do.
Task<Piece> BlobFetcher::read_patiently(Fetch& fetch, std::shared_ptr<VolumeClient> client,
                                        FragmentReadRequest request, Deadline deadline) {
  const Deadline until = deadline.capped(fetch.began + Duration(kBusyPatience));
  while (true) {
    Result<Piece> piece = co_await client->read_fragment(request, deadline);
    const BootTime again = context.clock.boot() + busy_pause(context.random.next());
    if (!is_busy(piece) || again >= until) co_return piece;
    if (fetch.given_up || forgotten_) co_return piece;  // nobody waits for it
    co_await context.clock.sleep_until(again);
  }
}

Awaitable<void> BlobFetcher::run(std::shared_ptr<BlobFetcher> self, std::shared_ptr<Fetch> fetch,
                                 std::shared_ptr<VolumeClient> client, FragmentReadRequest request,
                                 Deadline deadline) {
  Result<Piece> piece = fail(Errc::io, "no answer");
  const std::uint64_t bytes = request.length;
  try {
    piece = co_await self->read_patiently(*fetch, client, request, deadline);
  } catch (...) {
    piece = error_of_exception("a read of a fragment");
  }
  fetch->watch.reset();
  if (piece) {
    self->context.membership.report_fragment(fetch->volume, true);
    const Duration took = self->context.clock.boot() - fetch->began;
    self->context.membership.report_transfer(fetch->volume, bytes, took);
  }
  if (!fetch->given_up) fetch->result.emplace(std::move(piece));
  self->wakeup.notify();
}

void BlobFetcher::watch(std::shared_ptr<Fetch> fetch) {
  fetch->given_up = true;
  auto stalled = [&membership = context.membership, volume = fetch->volume] {
    membership.report_stalled(volume);
  };
  fetch->watch.emplace(*executor, context.clock, fetch->began + limits::kNoProgress,
                       std::move(stalled));
}

void BlobFetcher::note_failure(OpenBlob& open, std::uint32_t slot, const Error& error) {
  const VolumeId volume = open.blob.locations[slot].volume;
  switch (error.code) {
    case Errc::overloaded:
      return;            // says nothing about the fragment; another one serves this read
    case Errc::corrupt:  // other blocks of the fragment may be good
    case Errc::not_found:
    case Errc::invalid:  // shorter than the blob's layout says
      if (error.code != Errc::corrupt) open.lost[slot] = error.code;
      if (open.reported.has(slot)) return;
      open.reported.add(slot);
      context.membership.report_damaged(volume);
      if (damaged_) damaged_(open.blob, slot, error);
      return;
    default:
      if (!open.lost[slot]) context.membership.report_fragment(volume, false);
      open.lost[slot] = error.code;
  }
}

void BlobFetcher::note_stalled(OpenBlob& open, Fetch& fetch) {
  fetch.given_up = true;
  open.lost[fetch.slot] = Errc::timeout;
  context.membership.report_stalled(fetch.volume);
}

}  // namespace penstock
