#include "server/volume/volume.h"

// Volume as what background work asks: each call looks whether the volume serves, then goes to its
// store.
namespace penstock {

Result<> Volume::check_call(const char* call, Deadline deadline) const {
  CHECK_OK(health_->check());
  if (deadline < clock_.boot()) return fail(Errc::timeout, std::string(call) + ": too late");
  return {};
}

Task<std::vector<FragmentId>> Volume::pin_for_reader(std::vector<FragmentId> ids,
                                                     Deadline deadline) {
  CO_CHECK(check_call("pin_for_reader", deadline));
  co_return co_await fragments_->pin_for_reader(std::move(ids), deadline);
}

Task<> Volume::remove_fragment_if(FragmentId id, RemovalRule rule, Deadline deadline) {
  CO_CHECK(check_call("remove_fragment_if", deadline));
  co_return co_await fragments_->remove(id, rule, deadline);
}

Task<std::vector<FragmentEntry>> Volume::list_fragments(std::optional<FragmentId> after,
                                                        std::uint32_t count, Deadline deadline) {
  CO_CHECK(check_call("list_fragments", deadline));
  co_return co_await fragments_->list(after, count, deadline);
}

Task<HintListReply> Volume::list_hints(HintListRequest request, Deadline deadline) {
  CO_CHECK(check_call("list_hints", deadline));
  co_return co_await registers_->list_hints(std::move(request), deadline);
}

Task<Ballot> Volume::read_hint(HintName name, Deadline deadline) {
  CO_CHECK(check_call("read_hint", deadline));
  co_return co_await registers_->read_hint(name, deadline);
}

Task<> Volume::drop_hints(std::vector<HintName> names, Deadline deadline) {
  CO_CHECK(check_call("drop_hints", deadline));
  co_return co_await registers_->drop_hints(std::move(names), deadline);
}

Task<RegisterListReply> Volume::list_registers(RegisterListRequest request, Deadline deadline) {
  CO_CHECK(check_call("list_registers", deadline));
  co_return co_await registers_->list_registers(std::move(request), deadline);
}

// The map, the one before it, the epochs and what was taken over: one batch, synced before the
// first answer under any of it (R12).
Task<> Volume::adopt(std::shared_ptr<const AdoptRequest> request, Deadline deadline) {
  CO_CHECK(check_call("adopt", deadline));
  RegisterStore::Beside beside;
  beside.rows = [kept = kept_, request] {
    std::vector<RowOp> rows;
    std::lock_guard lock(kept->mutex);
    if (*kept->map == *request->map) return rows;
    rows.push_back(map_row(*request->map));
    rows.push_back(old_map_row(*kept->map));
    return rows;
  };
  beside.durable = [kept = kept_, request] {
    std::lock_guard lock(kept->mutex);
    if (*kept->map == *request->map) return;
    kept->old_map = std::exchange(kept->map, request->map);
  };
  co_return co_await registers_->adopt(request->epochs, request->join, std::move(beside), deadline);
}

Task<SharedBytes> Volume::read_map(Deadline deadline) {
  CO_CHECK(check_call("read_map", deadline));
  std::lock_guard lock(kept_->mutex);
  co_return kept_->map;
}

Task<JoinState> Volume::read_join_state(Deadline deadline) {
  CO_CHECK(check_call("read_join_state", deadline));
  co_return registers_->join_state();
}

}  // namespace penstock
