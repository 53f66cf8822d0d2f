#include "server/transport/served_transfers.h"

#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "penstock/caught.h"
#include "penstock/limits.h"
#include "server/transport/block_check.h"

namespace penstock {
namespace {

Error unknown_transfer() { return fail(Errc::invalid, "a fragment that nobody writes here"); }
Error dropped_transfer() { return fail(Errc::aborted, "a fragment that was given up"); }

constexpr ReportThrown report_end{"the steps of a fragment"};

}  // namespace

ServedTransfers::Shared ServedTransfers::find(std::uint64_t id) const {
  const auto at = transfers_.find(id);
  return at == transfers_.end() ? nullptr : at->second;
}

void ServedTransfers::add(const Shared& transfer, Step step, Answer answer) {
  transfer->last = clock_.boot();
  transfer->jobs.push_back(Job{std::move(step), std::move(answer)});
  if (std::exchange(transfer->running, true)) return;
  boost::asio::co_spawn(executor_, run(transfer), report_end);
}

Task<> ServedTransfers::take_step(Transfer& transfer, const Step& step) {
  if (transfer.dropped) co_return dropped_transfer();
  if (transfer.failed) co_return *transfer.failed;  // the pieces behind it are on their way
  Result<> answer = fail(Errc::io, "no answer");
  try {
    answer = co_await step(transfer);
  } catch (...) {
    answer = error_of_exception("a step of a fragment");
  }
  if (!answer) transfer.failed = answer.error();
  co_return answer;
}

Awaitable<void> ServedTransfers::run(Shared transfer) {
  while (!transfer->jobs.empty()) {
    const Job job = std::move(transfer->jobs.front());
    transfer->jobs.pop_front();
    Result<> answer = co_await take_step(*transfer, job.step);
    try {
      job.answer(std::move(answer));
    } catch (...) {  // nobody hears of this step; the next ones are taken all the same
      report_exception("the answer to a step of a fragment");
    }
  }
  transfer->running = false;
  if (transfer->dropped) transfer->writer.reset();
}

void ServedTransfers::open(std::uint64_t id, std::shared_ptr<VolumeClient> volume,
                           wire::WriteFragment message, Deadline deadline, Answer answer) {
  if (transfers_.size() >= limits::kTransfersPerConnection) {
    return answer(fail(Errc::overloaded, "too many fragments are being written"));
  }
  const auto transfer = std::make_shared<Transfer>();
  if (!transfers_.emplace(id, transfer).second) {
    return answer(fail(Errc::invalid, "a fragment with this request id is being written"));
  }
  auto step = [volume = std::move(volume), message = std::move(message),
               deadline](Transfer& own) -> Task<> {
    CO_TRY(writer, co_await volume->write_fragment(message.id, message.shape, deadline));
    own.writer = std::move(writer);
    own.fragment = message.id;
    co_return Result<>{};
  };
  add(transfer, std::move(step), std::move(answer));
}

void ServedTransfers::append(wire::Append message, Buffer payload, Deadline deadline,
                             Answer answer) {
  const Shared transfer = find(message.transfer);
  if (transfer == nullptr) return answer(unknown_transfer());
  auto step = [message = std::move(message), payload = std::move(payload),
               deadline](Transfer& own) mutable -> Task<> {
    if (own.writer == nullptr) co_return unknown_transfer();
    CO_CHECK(check_blocks(own.fragment, own.written, payload.bytes(), message.crcs));
    own.written += payload.size();
    co_return co_await own.writer->append(std::move(payload), std::move(message.crcs), deadline);
  };
  add(transfer, std::move(step), std::move(answer));
}

void ServedTransfers::commit(std::uint64_t id, Deadline deadline, Answer answer) {
  const Shared transfer = find(id);
  if (transfer == nullptr) return answer(unknown_transfer());
  auto step = [deadline](Transfer& own) -> Task<> {
    if (own.writer == nullptr) co_return unknown_transfer();
    co_return co_await own.writer->commit(deadline);
  };
  auto ended = [this, id, answer = std::move(answer), transfer](Result<> committed) {
    // Dropped ones are not in the table any more, and this object may be gone.
    if (committed && !transfer->dropped) transfers_.erase(id);
    answer(std::move(committed));
  };
  add(transfer, std::move(step), std::move(ended));
}

void ServedTransfers::drop(Transfer& transfer) {
  transfer.dropped = true;
  if (transfer.writer) transfer.writer->give_up();
  if (!transfer.running) transfer.writer.reset();
}

void ServedTransfers::discard(std::uint64_t id) {
  const Shared transfer = find(id);
  if (transfer == nullptr) return;
  transfers_.erase(id);
  drop(*transfer);
}

void ServedTransfers::drop_all() {
  for (const auto& [id, transfer] : transfers_) drop(*transfer);
  transfers_.clear();
}

void ServedTransfers::drop_idle(BootTime before) {
  for (auto at = transfers_.begin(); at != transfers_.end();) {
    const Shared transfer = at->second;
    if (transfer->running || transfer->last >= before) {
      ++at;
      continue;
    }
    at = transfers_.erase(at);
    drop(*transfer);
  }
}

}  // namespace penstock
