#include "server/volume/volume.h"

// Volume as a VolumeClient: each call looks whether the volume serves, then goes to its store.
namespace penstock {

VolumeStatus Volume::status() const {
  VolumeStatus status;
  status.state = health_->state();
  status.reason = health_->reason();
  if (status.state != VolumeStatus::State::open) return status;
  refresh_space_soon();
  const FragmentStatistics statistics = fragments_->statistics();
  const SpaceGuard::Room room =
      space_->room(statistics.segment_bytes, statistics.segment_free_bytes);
  status.free_bytes = room.free_bytes;
  status.total_bytes = room.total_bytes;
  status.full = room.full;
  status.fragment_count = statistics.fragment_count;
  status.fragment_bytes = statistics.fragment_bytes;
  return status;
}

std::uint64_t Volume::damaged_reads() const { return fragments_->statistics().corrupt_count; }

void Volume::refresh_space_soon() const {
  if (!space_->refresh_due()) return;
  fragment_write_worker_->submit([space = space_] { space->refresh(); });
}

Task<PrepareReply> Volume::prepare(std::shared_ptr<const PrepareRequest> request,
                                   Deadline deadline) {
  CO_CHECK(health_->check());
  co_return co_await registers_->prepare(std::move(request), deadline);
}

Task<AcceptReply> Volume::accept(std::shared_ptr<const AcceptRequest> request, Deadline deadline) {
  CO_CHECK(health_->check());
  co_return co_await registers_->accept(std::move(request), deadline);
}

Task<Accepted> Volume::read(std::shared_ptr<const ReadRequest> request, Deadline deadline) {
  CO_CHECK(health_->check());
  co_return co_await registers_->read(std::move(request), deadline);
}

std::optional<Result<Accepted>> Volume::read_now(const ReadRequest& request) {
  if (auto open = health_->check(); !open) return Result<Accepted>(std::move(open).error());
  return registers_->read_now(request);
}

bool Volume::holds_now(const ReadRequest& request, const Ballot& ballot) {
  return health_->check() && registers_->holds_now(request, ballot);
}

Task<ScanReply> Volume::scan(std::shared_ptr<const ScanRequest> request, Deadline deadline) {
  CO_CHECK(health_->check());
  co_return co_await registers_->scan(std::move(request), deadline);
}

Task<> Volume::drop(std::shared_ptr<const DropRequest> request, Deadline deadline) {
  CO_CHECK(health_->check());
  co_return co_await registers_->drop(std::move(request), deadline);
}

Task<std::unique_ptr<FragmentWriter>> Volume::write_fragment(FragmentId id, FragmentShape shape,
                                                             Deadline deadline) {
  CO_CHECK(health_->check());
  if (deadline < clock_.boot()) co_return fail(Errc::timeout, "write_fragment: too late");
  refresh_space_soon();
  co_return co_await fragments_->create(id, shape, deadline);
}

Task<Piece> Volume::read_fragment(FragmentReadRequest request, Deadline deadline) {
  CO_CHECK(health_->check());
  if (deadline < clock_.boot()) co_return fail(Errc::timeout, "read_fragment: too late");
  co_return co_await fragments_->read(std::move(request), deadline);
}

std::optional<Result<Piece>> Volume::read_fragment_now(const FragmentReadRequest& request) {
  if (auto open = health_->check(); !open) return Result<Piece>(std::move(open).error());
  if (!options_.read_on_caller) return std::nullopt;
  return fragments_->read_now(request);
}

Task<std::vector<FragmentId>> Volume::pin(std::vector<FragmentId> ids, Deadline deadline) {
  CO_CHECK(health_->check());
  if (deadline < clock_.boot()) co_return fail(Errc::timeout, "pin: too late");
  co_return co_await fragments_->pin(std::move(ids), deadline);
}

// The row is one that is there already: it says nothing new.
Task<> Volume::probe(Deadline deadline) {
  CO_CHECK(health_->check());
  const auto oldest = watch_->look();
  if (oldest && oldest->age >= Duration(limits::kNoProgress)) {
    co_return fail(Errc::unavailable, "a disk call is under way for too long");
  }
  std::vector<RowOp> rows;
  rows.push_back(starts_row(start_counter_));
  CO_CHECK(co_await registers_->commit_rows(std::move(rows), deadline));
  if (!space_->full()) CO_CHECK(co_await fragments_->probe(deadline));  // else the row says enough
  HintName nobody{};
  auto looked = co_await registers_->read_hint(nobody, deadline);
  if (!looked) co_return looked.error();
  co_return Result<>{};
}

Task<> Volume::remove_fragment(FragmentId id, Deadline deadline) {
  CO_CHECK(health_->check());
  if (deadline < clock_.boot()) co_return fail(Errc::timeout, "remove_fragment: too late");
  co_return co_await fragments_->remove(id, RemovalRule::always, deadline);
}

}  // namespace penstock
