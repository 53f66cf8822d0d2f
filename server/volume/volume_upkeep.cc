#include "penstock/note_name.h"
#include "penstock/planted.h"
#include "server/volume/volume.h"

// Volume as what background work asks: each call looks whether the volume serves, then goes to its
// store.
namespace penstock {
namespace {
constexpr const char* kNotAsked = "it has just got a map: the other volumes were not asked yet";
}  // namespace

Result<> Volume::check_call(const char* call, Deadline deadline) const {
  CHECK_OK(health_->check());
  if (deadline < clock_.boot()) return fail(Errc::timeout, std::string(call) + ": too late");
  return {};
}

// Of a call that a volume answers before it is admitted, too.
Result<> Volume::check_peer_call(const char* call, Deadline deadline) const {
  CHECK_OK(health_->check_open());
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

// R13: nobody was asked about a volume that had no map. Before the map is queued: no round of its
// epochs gets past this.
void Volume::hold_stranger(const std::string& map) {
  std::lock_guard lock(kept_->mutex);
  if (kept_->member || *kept_->map == map) return;
  health_->hold(kNotAsked);
}

// The map, the one before it, the epochs and what was taken over: one batch, synced before the
// first answer under any of it (R12).
Task<> Volume::adopt(std::shared_ptr<const AdoptRequest> request, Deadline deadline) {
  CO_CHECK(check_call("adopt", deadline));
  hold_stranger(*request->map);
  RegisterStore::Beside beside;
  beside.rows = [kept = kept_, request](bool changed) -> Result<std::vector<RowOp>> {
    std::vector<RowOp> rows;
    std::lock_guard lock(kept->mutex);
    if (*kept->map == *request->map) return rows;
    // Each change of a map raises all epochs: with none raised this is another map of the epoch
    // that the volume is at, though its lists may be the same.
    if (!changed && !request->epochs.empty() && holds(Rule::map_kept)) {
      return fail(Errc::stale_epoch, "the volume holds another map of this epoch");
    }
    rows.push_back(map_row(*request->map));
    rows.push_back(old_map_row(*kept->map));
    return rows;
  };
  beside.durable = [kept = kept_, health = health_, request] {
    std::lock_guard lock(kept->mutex);
    if (*kept->map == *request->map) return;
    if (!kept->member) health->hold(kNotAsked);
    kept->old_map = std::exchange(kept->map, request->map);
    kept->map_hash = penstock::map_hash(*request->map);
  };
  co_return co_await registers_->adopt(request->epochs, request->join, std::move(beside), deadline);
}

Task<SharedBytes> Volume::read_map(Deadline deadline) {
  CO_CHECK(check_peer_call("read_map", deadline));
  std::lock_guard lock(kept_->mutex);
  co_return kept_->map;
}

Task<JoinState> Volume::read_join_state(Deadline deadline) {
  CO_CHECK(check_call("read_join_state", deadline));
  co_return registers_->join_state();
}

Task<NoteReply> Volume::read_note(std::string name, Deadline deadline) {
  CO_CHECK(check_peer_call("read_note", deadline));
  std::lock_guard lock(kept_->mutex);
  NoteReply reply;
  const auto found = kept_->notes.find(name);
  if (found != kept_->notes.end()) reply.bytes = found->second;
  reply.map = kept_->map_hash;
  co_return reply;
}

Task<> Volume::put_note(std::string name, std::string bytes, Deadline deadline) {
  CO_CHECK(health_->check_open());
  if (!is_note_name(name) || bytes.size() > kNoteBytesMax) {
    co_return fail(Errc::invalid, "note: its name makes no sense, or it is too long");
  }
  {
    std::lock_guard lock(kept_->mutex);
    const auto noted = kept_->notes.find(name);
    const bool known = noted != kept_->notes.end();
    if (!known && kept_->notes.size() >= kNotesMax) {
      co_return fail(Errc::overloaded, "too many notes");
    }
    const bool outdated = known && is_outdated(name, noted->second, bytes);
    const bool late = kept_->queued.contains(name) && is_outdated(name, kept_->queued[name], bytes);
    if ((outdated || late) && holds(Rule::starts_forward)) {
      co_return fail(Errc::busy, "a later start is noted, or one of another copy");
    }
    if (name.starts_with(kStartsNote)) kept_->queued[name] = bytes;
  }
  std::vector<RowOp> rows;
  rows.push_back(note_row(name, bytes));
  std::function<void()> durable = [kept = kept_, name, text = std::move(bytes)] {
    std::lock_guard lock(kept->mutex);
    kept->notes[name] = text;
  };
  co_return co_await registers_->commit_rows(std::move(rows), deadline, std::move(durable));
}

}  // namespace penstock
