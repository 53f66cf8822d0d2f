#include "penstock/assert.h"
#include "penstock/planted.h"
#include "server/proposer/read_round.h"
#include "server/proposer/register_round.h"
#include "server/proposer/round_end.h"

namespace penstock {
namespace {

// The same accept with and without the inline bytes: replicas that hold them are spared the copy.
struct AcceptRequests {
  std::shared_ptr<AcceptRequest> whole;
  std::shared_ptr<AcceptRequest> without_inline;
};
AcceptRequests make_requests(const RegisterTask& task, const RegisterGroup& group,
                             Proposal& proposal) {
  AcceptRequests requests;
  requests.whole = std::make_shared<AcceptRequest>();
  AcceptRequest& whole = *requests.whole;
  whole.key = task.ref.key;
  whole.ballot = proposal.ballot;
  whole.round = make_round(group, task.ref, task.pass_fence);
  whole.round.adds_nothing = proposal.adds_nothing;
  whole.value = std::move(proposal.value);
  whole.hints = std::move(proposal.hints);
  requests.without_inline = requests.whole;
  if (proposal.inline_bytes == nullptr) return requests;
  if (!proposal.have_inline.empty())
    requests.without_inline = std::make_shared<AcceptRequest>(whole);
  whole.inline_bytes = std::move(proposal.inline_bytes);
  return requests;
}

std::size_t frame_bytes(const AcceptRequest& request) {
  const std::size_t inline_bytes =
      request.inline_bytes == nullptr ? 0 : request.inline_bytes->size();
  std::size_t bytes = request.key.key.size() + request.value->size() + inline_bytes;
  for (const Hint& hint : request.hints) bytes += stored_bytes(request.key, hint);
  return bytes;
}

// Sends `client` the row of the upload that a part belongs to, at the row's own ballot (R6b).
Task<> send_upload_row(ProposerContext& context, RegisterTask part,
                       std::shared_ptr<VolumeClient> client, Round round, Deadline deadline) {
  RegisterTask upload = std::move(part);
  upload.ref.key.kind = RowKind::upload;
  upload.ref.key.part = 0;
  CO_TRY(snapshot, co_await read_round(context, upload, ReadWant::value));
  if (snapshot.value == nullptr) co_return fail(Errc::upload_not_open, "the upload is absent");
  auto request = std::make_shared<AcceptRequest>();
  request->key = upload.ref.key;
  request->ballot = snapshot.ballot;
  request->round = round;
  request->value = std::make_shared<const std::string>(encode(request->key, *snapshot.value));
  CO_TRY(reply, co_await client->accept(request, deadline));
  if (!reply.accepted) co_return fail(Errc::refused, "the upload's row is being changed");
  co_return Result<>{};
}

Task<AcceptReply> accept_at(ProposerContext& context, RegisterTask task,
                            std::shared_ptr<VolumeClient> client,
                            std::shared_ptr<const AcceptRequest> request, Deadline deadline) {
  auto reply = co_await client->accept(request, deadline);
  if (reply || reply.error().code != Errc::upload_missing) co_return reply;
  CO_CHECK(co_await send_upload_row(context, std::move(task), client, request->round, deadline));
  co_return co_await client->accept(request, deadline);
}

void start_all(ProposerContext& context, const RegisterTask& task, const AcceptRequests& requests,
               const Proposal& proposal, Executor executor, RegisterCalls<AcceptReply>& calls) {
  const RegisterGroup& group = calls.group();
  // The call outlives the round: a timeout would be a cancelled straggler (R5).
  const BootTime end = context.clock.boot() + Duration(limits::kOperationDeadline);
  const Deadline deadline = task.deadline.moved_to(end);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const auto& client = group.clients[i];
    if (proposal.holders.has(i)) continue;
    if (!holds(Rule::stragglers) && i >= majority(group.size())) continue;
    if (client == nullptr) {
      calls.fail_at(i, fail(Errc::unavailable, "out of reach"));
    } else if (!context.stragglers->has_room(group.set.volumes[i])) {
      calls.fail_at(i, fail(Errc::overloaded, "too many accepts under way"));
    } else {
      const bool spare = proposal.have_inline.has(i);
      const auto& request = spare ? requests.without_inline : requests.whole;
      auto call = task.ref.key.kind == RowKind::part
                      ? accept_at(context, task, client, request, deadline)
                      : client->accept(request, deadline);
      calls.start_at(executor, i, std::move(call));
    }
  }
}

// Does this error of an accept say that it was not written? `io` does not: what a disk was given
// when it failed may be found at the next start.
bool is_not_written(Errc code) {
  switch (code) {
    case Errc::full:
    case Errc::upload_not_open:
    case Errc::upload_missing:
    case Errc::refused:
    case Errc::stale_epoch:
    case Errc::stale_bucket:
    case Errc::epoch_behind:
    case Errc::unavailable:
    case Errc::overloaded:
      return true;
    default:
      return false;
  }
}

// The reason that every volume gave, if the accept is known to have been taken by none.
std::optional<Error> rejection(const RegisterCalls<AcceptReply>& calls) {
  if (calls.answered() != calls.group().all() || !grants(calls).empty()) return std::nullopt;
  std::optional<Error> reason;
  for (std::size_t i = 0; i < calls.group().size(); ++i) {
    const auto& answer = calls.answer(i);
    if (!answer || *answer) continue;
    const Error& error = answer->error();
    if (!is_not_written(error.code)) return std::nullopt;
    const bool of_the_upload = error.code == Errc::upload_not_open;
    if (of_the_upload || (error.code == Errc::full && !reason)) reason = error;
  }
  return reason;
}

}  // namespace

Task<AcceptEnd> accept_round(ProposerContext& context, const RegisterTask& task,
                             std::shared_ptr<const RegisterGroup> group, Proposal proposal,
                             BallotSource* ballots) {
  if (!holds(Rule::epoch_of_round)) {
    const RegisterKey& key = task.ref.key;
    CO_TRY(newest, context.groups.find(key.bucket, key.key, task.ref.partitions));
    group = std::move(newest);
  }
  PENSTOCK_ASSERT(!proposal.ballot.is_zero() && proposal.value != nullptr);
  PENSTOCK_ASSERT(((proposal.holders | proposal.have_inline) - group->all()).empty() ||
                  !holds(Rule::epoch_of_round));
  const AcceptRequests requests = make_requests(task, *group, proposal);
  const bool sent_again = ballots == nullptr;
  if (sent_again && !holds(Rule::fenced_resend)) requests.whole->round.pass_fence = true;
  const auto executor = co_await boost::asio::this_coro::executor;
  const Deadline until = call_end(context, task);
  const IndexMask held = proposal.holders;
  RegisterCalls<AcceptReply> calls(context, group, frame_bytes(*requests.whole), held);
  start_all(context, task, requests, proposal, executor, calls);
  const bool for_all = proposal.wait_for_all;
  auto enough = [&calls, held, for_all] { return !for_all && decided(calls, held); };
  co_await calls.wait(std::move(enough), until);

  AcceptEnd end;
  PENSTOCK_ASSERT((grants(calls) & held).empty() && "who holds it is not asked");
  end.by_all = (grants(calls) | held) == calls.group().all();
  end.end = end_of(calls, proposal.ballot, held, ballots);
  if (end.end == RoundEnd::majority) co_return end;
  if (auto reason = rejection(calls)) {
    end.rejected = true;
    end.error = std::move(*reason);
  } else {
    end.error = error_of(end.end, calls);
    end.silent = is_silent(calls, held);
  }
  if (end.end == RoundEnd::stale_epoch) co_await context.learner.learn();
  co_return end;
}

Task<Proposal> highest_again(ProposerContext& context, const RegisterTask& task,
                             const Promises& promises, const RegisterValue& value) {
  Proposal proposal;
  proposal.ballot = promises.ballot;
  PENSTOCK_ASSERT(promises.end == RoundEnd::majority);
  PENSTOCK_ASSERT(promises.highest.value != nullptr);
  proposal.value = promises.highest.value;
  proposal.adds_nothing = true;
  if (value.inline_bytes == 0) co_return proposal;
  PENSTOCK_ASSERT(promises.rows.size() == promises.group->size());
  for (std::size_t i = 0; i < promises.rows.size(); ++i) {
    const auto& row = promises.rows[i];
    if (!row || row->value == nullptr) continue;
    const auto head = decode_head(*row->value);
    if (head && head->op_id == value.op_id) proposal.have_inline.add(i);
  }
  if (proposal.have_inline == promises.group->all()) co_return proposal;
  auto request = std::make_shared<ReadRequest>();
  request->key = task.ref.key;
  request->round = promises.round;
  request->want = ReadWant::value_and_inline;
  for (std::size_t i = 0; i < promises.rows.size(); ++i) {
    if (!proposal.have_inline.has(i)) continue;
    const Deadline until = call_end(context, task);
    auto call = promises.group->clients[i]->read(request, until);
    auto row = co_await call_one(context, promises.group, i, std::move(call), until);
    if (!row || row->value == nullptr || row->inline_bytes == nullptr) continue;
    const auto head = decode_head(*row->value);
    if (!head || head->op_id != value.op_id) continue;
    proposal.inline_bytes = row->inline_bytes;
    co_return proposal;
  }
  co_return fail(Errc::unavailable, "no replica answers with the inline bytes");
}

Proposal tombstone_of_absent(const RegisterTask& task, Ballot ballot) {
  RegisterValue value;
  value.kind = ValueKind::tombstone;
  value.chain.push_back(OpId{});
  value.origin = ballot;
  Proposal proposal;
  proposal.ballot = ballot;
  proposal.value = std::make_shared<const std::string>(encode(task.ref.key, value));
  proposal.adds_nothing = true;
  return proposal;
}

}  // namespace penstock
