#include "tests/fake/fake_acceptor.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

namespace penstock {
namespace {
constexpr std::uint64_t kCeilingStepUs = Duration(limits::kCeilingStep).count();
constexpr std::uint64_t kFutureBoundUs = Duration(limits::kFutureBound).count();

Error no_part_of_this() { return fail(Errc::unavailable, "no part of this fake"); }
}  // namespace

void FakeAcceptor::restart() {
  promises_.clear();
  floor = ceiling;
}

VolumeStatus FakeAcceptor::status() const {
  if (before_status) before_status();
  VolumeStatus status;
  status.state = state;
  status.full = full;
  return status;
}

template <class Reply>
Awaitable<void> FakeAcceptor::arrive_later(FakeAcceptor* self, BootTime when, Work<Reply> work) {
  co_await self->clock_.sleep_until(when);
  if (self->state == VolumeStatus::State::open) (void)work();
}

template <class Reply>
Task<Reply> FakeAcceptor::travel(FakeAcceptor* self, Fate fate, Work<Reply> work,
                                 Deadline deadline) {
  const BootTime arrival = self->clock_.boot() + fate.request_delay;
  if (fate.twice) {
    boost::asio::co_spawn(self->io_,
                          arrive_later<Reply>(self, arrival + fate.request_delay * 3, work),
                          boost::asio::detached);
  }
  if (fate.lose_request || arrival > deadline) {
    if (!fate.lose_request) {
      boost::asio::co_spawn(self->io_, arrive_later<Reply>(self, arrival, work),
                            boost::asio::detached);
    }
    co_await self->clock_.sleep_until(deadline);
    co_return fail(Errc::timeout, "no answer");
  }
  co_await self->clock_.sleep_until(arrival);
  if (fate.refusal) co_return fail(*fate.refusal, "as its fate is");
  if (self->state != VolumeStatus::State::open)
    co_return fail(Errc::unavailable, "the volume is closed");
  auto reply = work();
  const BootTime back = self->clock_.boot() + fate.reply_delay;
  co_await self->clock_.sleep_until(fate.lose_reply ? deadline : deadline.capped(back));
  if (fate.lose_reply || back > deadline) co_return fail(Errc::timeout, "no answer");
  co_return reply;
}

template <class Reply>
Task<Reply> FakeAcceptor::deliver(RegisterCall call, const RegisterKey& key, Work<Reply> work,
                                  Deadline deadline) {
  return travel<Reply>(this, fate ? fate(id_, call, key) : Fate{}, std::move(work), deadline);
}

Task<PrepareReply> FakeAcceptor::prepare(std::shared_ptr<const PrepareRequest> request,
                                         Deadline deadline) {
  Work<PrepareReply> work = [this, request] { return on_prepare(*request); };
  return deliver(RegisterCall::prepare, request->key, std::move(work), deadline);
}

Task<AcceptReply> FakeAcceptor::accept(std::shared_ptr<const AcceptRequest> request,
                                       Deadline deadline) {
  Work<AcceptReply> work = [this, request] { return on_accept(*request); };
  return deliver(RegisterCall::accept, request->key, std::move(work), deadline);
}

Task<Accepted> FakeAcceptor::read(std::shared_ptr<const ReadRequest> request, Deadline deadline) {
  Work<Accepted> work = [this, request] {
    ++counters.reads;
    counters.whole_reads += request->want == ReadWant::ballot ? 0 : 1;
    return on_read(*request);
  };
  return deliver(RegisterCall::read, request->key, std::move(work), deadline);
}

std::optional<Result<Accepted>> FakeAcceptor::read_now(const ReadRequest& request) {
  if (!cached || state != VolumeStatus::State::open) return std::nullopt;
  ++counters.reads_now;
  return on_read(request);
}

bool FakeAcceptor::holds_now(const ReadRequest& request, const Ballot& ballot) {
  if (!knows_ballots || state != VolumeStatus::State::open) return false;
  const auto row = on_read(request);
  const bool held = row && row->ballot == ballot && !ballot.is_zero();
  counters.ballots_now += held ? 1 : 0;
  return held;
}

Result<> FakeAcceptor::gate(const RegisterKey& key, const Round& round) {
  if (round.epoch < epoch) return fail(Errc::stale_epoch, "an older epoch");
  epoch = round.epoch;
  const auto fence = fences.find(key.bucket);
  const bool passes =
      round.pass_fence || fence == fences.end() || round.bucket_number > fence->second;
  if (!passes) return fail(Errc::stale_bucket, "fenced");
  const auto row = rows.find(key);
  if (row != rows.end() && row->second.unreadable) return fail(Errc::corrupt, "bad row");
  return Result<>{};
}

Ballot FakeAcceptor::bar(const RegisterKey& key) {
  const auto promise = promises_.find(key);
  const auto row = rows.find(key);
  return std::max(promise == promises_.end() ? Ballot{} : promise->second,
                  row == rows.end() ? Ballot{} : row->second.accepted.ballot);
}

Result<PrepareReply> FakeAcceptor::on_prepare(const PrepareRequest& request) {
  ++counters.prepares;
  CHECK_OK(gate(request.key, request.round));
  PrepareReply reply;
  reply.horizon = horizon;
  const Ballot above = bar(request.key);
  reply.demand_ballot.counter = std::max(above.counter, limit()) + 1;
  if (const auto row = rows.find(request.key); row != rows.end())
    reply.accepted = row->second.accepted;
  const auto promised = promises_.find(request.key);
  const bool repeated = promised != promises_.end() && promised->second == request.ballot;
  const auto wall =
      static_cast<std::uint64_t>((clock_.wall() + clock_offset).time_since_epoch().count());
  const bool future = !request.round.follows &&
                      request.ballot.counter > std::max({wall, ceiling, horizon}) + kFutureBoundUs;
  const bool lower = request.ballot < above || (request.ballot == above && !repeated);
  if (request.ballot.counter <= limit() || lower || future) return reply;
  if (request.ballot.counter > ceiling) ceiling = request.ballot.counter + kCeilingStepUs;
  promises_[request.key] = request.ballot;
  reply.promised = true;
  return reply;
}

Result<AcceptReply> FakeAcceptor::on_accept(const AcceptRequest& request) {
  ++counters.accepts;
  CHECK_OK(gate(request.key, request.round));
  AcceptReply reply;
  Row& row = rows[request.key];
  const Ballot above = bar(request.key);
  reply.demand_ballot.counter = std::max(above.counter, limit()) + 1;
  reply.accepted = row.accepted.ballot == request.ballot;
  if (reply.accepted || request.ballot.counter <= limit() || request.ballot < above) {
    if (row.accepted.ballot.is_zero()) rows.erase(request.key);
    return reply;
  }
  Result<> allowed{};
  if (request.key.kind == RowKind::part && !request.round.adds_nothing) {
    RegisterKey upload = request.key;
    upload.kind = RowKind::upload;
    upload.part = 0;
    const auto at = rows.find(upload);
    if (at == rows.end()) {
      allowed = fail(Errc::upload_missing, "no row of the upload");
    } else if (const auto head = decode_head(*at->second.accepted.value);
               head->kind != ValueKind::upload_open) {
      allowed = fail(Errc::upload_not_open, "not open");
    }
  }
  if (full && !request.round.adds_nothing) allowed = fail(Errc::full, "no space");
  if (!allowed) {
    if (row.accepted.ballot.is_zero()) rows.erase(request.key);
    return allowed.error();
  }
  ceiling = std::max(ceiling, request.ballot.counter);
  promises_[request.key] = request.ballot;
  row.accepted.ballot = request.ballot;
  row.accepted.epoch = request.round.epoch;
  row.accepted.value = request.value;
  const auto head = decode_head(*request.value);
  if (request.inline_bytes != nullptr) row.inline_of[head->op_id] = request.inline_bytes;
  row.partitions = request.round.partitions;
  hints[request.key] = request.hints;
  for (const Hint& hint : request.hints) {
    const HintName name{hint.due, hint.write_id};
    stored_hints[name] = {name,
                          request.ballot,
                          request.key.bucket,
                          row.partitions,
                          request.key.key,
                          hint.upload_id,
                          hint.locations,
                          {}};
    hint_arrivals[name] = clock_.boot();
  }
  reply.accepted = true;
  return reply;
}

Result<Accepted> FakeAcceptor::on_read(const ReadRequest& request) {
  CHECK_OK(gate(request.key, request.round));
  const auto at = rows.find(request.key);
  if (at == rows.end()) return Accepted{};
  Accepted row = at->second.accepted;
  if (request.want == ReadWant::value_and_inline) {
    const auto head = decode_head(*row.value);
    const auto bytes = at->second.inline_of.find(head->op_id);
    if (bytes != at->second.inline_of.end()) row.inline_bytes = bytes->second;
  }
  if (request.want == ReadWant::ballot) row.value = nullptr;
  return row;
}

Task<HintListReply> FakeAcceptor::list_hints(HintListRequest request, Deadline) {
  if (state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  HintListReply reply;
  reply.count = stored_hints.size();
  for (const auto& [name, hint] : stored_hints) {
    if (request.after && name <= *request.after) continue;
    if (name.due > request.due_until) break;
    if (reply.hints.size() == std::min<std::size_t>(request.rows_max, listed_max)) break;
    reply.hints.push_back(hint);
    const auto arrived = hint_arrivals.find(name);
    if (arrived != hint_arrivals.end()) reply.hints.back().age = clock_.boot() - arrived->second;
  }
  co_return reply;
}

Task<Ballot> FakeAcceptor::read_hint(HintName name, Deadline) {
  if (state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  const auto found = stored_hints.find(name);
  co_return found == stored_hints.end() ? Ballot{} : found->second.ballot;
}

Task<> FakeAcceptor::drop_hints(std::vector<HintName> names, Deadline) {
  if (state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  for (const HintName& name : names) stored_hints.erase(name);
  co_return Result<>{};
}

Task<RegisterListReply> FakeAcceptor::list_registers(RegisterListRequest request, Deadline) {
  if (state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  if (before_list) before_list();
  RegisterListReply reply;
  for (const auto& [key, row] : rows) {
    if (key.kind != request.kind) continue;
    if (request.after && key <= *request.after) continue;
    reply.damaged = reply.damaged || row.unreadable;
    if (row.unreadable) continue;
    const auto head = decode_head(*row.accepted.value);
    if (request.only && head->kind != *request.only) continue;
    reply.rows.push_back(
        {key, row.partitions, row.accepted.ballot, head->kind, std::string(head->summary)});
    if (reply.rows.size() == request.rows_max) {
      reply.covered = key;
      break;
    }
  }
  co_return reply;
}

Task<ScanReply> FakeAcceptor::scan(std::shared_ptr<const ScanRequest>, Deadline) {
  co_return no_part_of_this();
}
Task<> FakeAcceptor::drop(std::shared_ptr<const DropRequest> request, Deadline) {
  if (state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  ++counters.drops;
  CO_CHECK(gate(request->key, request->round));
  const auto found = rows.find(request->key);
  if (found == rows.end()) co_return Result<>{};
  const auto head = decode_head(*found->second.accepted.value);
  const bool other = found->second.accepted.ballot != request->ballot;
  if (other || !head || head->kind != ValueKind::tombstone) {
    co_return fail(Errc::refused, "another row");
  }
  horizon = std::max(horizon, request->ballot.counter);
  rows.erase(found);
  co_return Result<>{};
}
Task<std::unique_ptr<FragmentWriter>> FakeAcceptor::write_fragment(FragmentId, FragmentShape,
                                                                   Deadline) {
  co_return no_part_of_this();
}
Task<Piece> FakeAcceptor::read_fragment(FragmentReadRequest, Deadline) {
  co_return no_part_of_this();
}
std::optional<Result<Piece>> FakeAcceptor::read_fragment_now(const FragmentReadRequest&) {
  return std::nullopt;
}
Task<std::vector<FragmentId>> FakeAcceptor::pin(std::vector<FragmentId>, Deadline) {
  co_return no_part_of_this();
}
Task<> FakeAcceptor::remove_fragment(FragmentId, Deadline) { co_return no_part_of_this(); }

Task<> FakeAcceptor::adopt(std::shared_ptr<const AdoptRequest> request, Deadline) {
  if (state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  if (before_adopt) before_adopt();
  const Epoch before = epoch;
  for (const GroupEpoch& wanted : request->epochs) {
    if (wanted.epoch < epoch) co_return fail(Errc::stale_epoch, "an older epoch");
    epoch = wanted.epoch;
  }
  const bool other = map != nullptr && !map->empty() && *map != *request->map;
  if (other && epoch == before && !request->epochs.empty()) {
    co_return fail(Errc::stale_epoch, "another map of this epoch");
  }
  map = request->map;
  horizon = std::max(horizon, request->join.horizon);
  for (const auto& [bucket, number] : request->join.fences) {
    fences[bucket] = std::max(fences[bucket], number);
  }
  co_return Result<>{};
}

Task<SharedBytes> FakeAcceptor::read_map(Deadline) {
  if (state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  co_return map;
}

Task<JoinState> FakeAcceptor::read_join_state(Deadline) {
  if (state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  JoinState joined;
  joined.horizon = horizon;
  joined.fences.assign(fences.begin(), fences.end());
  co_return joined;
}

Task<NoteReply> FakeAcceptor::read_note(std::string name, Deadline) {
  if (state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  NoteReply reply;
  if (const auto found = notes.find(name); found != notes.end()) reply.bytes = found->second;
  reply.map = map ? map_hash(*map) : 0;
  co_return reply;
}

Task<> FakeAcceptor::put_note(std::string name, std::string bytes, Deadline) {
  if (state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  if (!takes_notes) co_return fail(Errc::timeout, "a fault of the test");
  const auto found = notes.find(name);
  const bool outdated = found != notes.end() && is_outdated(name, found->second, bytes);
  if (outdated) co_return fail(Errc::busy, "another start is noted");
  notes[name] = std::move(bytes);
  co_return Result<>{};
}

}  // namespace penstock
