#include "gateway/bench/load_thread.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace penstock {
namespace {

constexpr std::size_t kReceiveBytes = 1 << 20;
constexpr Duration kLookEvery{100'000};     // for requests that take too long
constexpr Duration kAfterFailure{100'000};  // before a connection is made anew

}  // namespace

LoadThread::Slot::Slot(const LoadShared& shared, std::uint32_t its_number)
    : connection(shared.endpoint.peer, shared.content, shared.options.verify), number(its_number) {}

LoadThread::LoadThread(LoadShared& shared, std::uint32_t first, std::uint32_t count)
    : shared_(shared), epoll_(::epoll_create1(EPOLL_CLOEXEC)), buffer_(kReceiveBytes, '\0') {
  for (std::uint32_t i = 0; i < count; ++i) {
    slots_.push_back(std::make_unique<Slot>(shared, first + i));
  }
  left_ = count;
}

LoadThread::~LoadThread() { ::close(epoll_); }

void LoadThread::end(Slot& slot) {
  slot.connection.close();
  slot.ended = true;
  --left_;
}

bool LoadThread::connect(Slot& slot) {
  if (auto dialled = slot.connection.dial(); !dialled) {
    if (trouble_.context.empty()) trouble_ = std::move(dialled).error();
    end(slot);
    return false;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &slot;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, slot.connection.fd(), &event);
  slot.waits_to_send = false;
  return true;
}

// Asks for room to send only while there is something to be sent.
void LoadThread::watch(Slot& slot) {
  const bool wants = slot.connection.has_to_send();
  if (wants == slot.waits_to_send) return;
  epoll_event event{};
  event.events = wants ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.ptr = &slot;
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, slot.connection.fd(), &event);
  slot.waits_to_send = wants;
}

void LoadThread::turn(Slot& slot, BenchTime now) {
  LoadRequest& request = slot.connection.request();
  const auto index = slot.number - slots_.front()->number;
  if (!slot.filled) {
    if (shared_.stop.load(std::memory_order_relaxed)) return end(slot);
    request.clear();
    request.connection = slot.number;
    switch (shared_.source.next(now, request)) {
      case LoadSource::Turn::end:
        return end(slot);
      case LoadSource::Turn::later:
        return alarms_.emplace(std::max(request.intended, now + Duration(50)), index), void();
      case LoadSource::Turn::send:
        slot.filled = true;
    }
  }
  const bool stop = shared_.stop.load(std::memory_order_relaxed);
  if (stop && request.intended > std::min(now, shared_.measure_until)) return end(slot);
  if (request.intended > now) {
    alarms_.emplace(request.intended, index);
    return;
  }
  start(slot, now);
}

void LoadThread::start(Slot& slot, BenchTime now) {
  if (!slot.connection.usable() && !connect(slot)) return;
  slot.filled = false;
  slot.connection.begin(now);
  if (!slot.connection.send_more()) return finish(slot, now);
  watch(slot);
}

// What the processes' time is that of: whenever its request began.
bool LoadThread::in_window(BenchTime now) const {
  return now >= shared_.measure_from && !shared_.stop.load(std::memory_order_relaxed);
}

void LoadThread::count(Slot& slot, BenchTime now) {
  const LoadConnection& connection = slot.connection;
  const LoadOutcome& outcome = connection.outcome();
  const bool within = connection.sent() >= shared_.measure_from;
  const bool late = shared_.options.measure != Duration{} && shared_.stop.load();
  // Also what ends late, or was under way all the time: left out, a stall until then would hide.
  if (outcome.good && (within || late)) {
    tally_.latency.record(now - connection.started());
    tally_.first_byte.record(connection.first_byte() - connection.started());
  }
  if (outcome.good && within && !late) {
    ++tally_.good;
    tally_.bytes_out += connection.request().content_bytes;
    shared_.good.fetch_add(1, std::memory_order_relaxed);
    shared_.bytes.fetch_add(connection.request().content_bytes + connection.received_bytes(),
                            std::memory_order_relaxed);
  } else if (!outcome.good) {
    ++tally_.failed;  // whenever it began
    ++tally_.failures[outcome.error];
    if (tally_.first_failure.empty()) {
      tally_.first_failure = outcome.error;
      if (!outcome.body.empty()) tally_.first_failure += ": " + outcome.body;
    }
    shared_.failed.fetch_add(1, std::memory_order_relaxed);
  }
}

void LoadThread::close_after_failure(Slot& slot, BenchTime now) {
  slot.connection.close();
  alarms_.emplace(now + kAfterFailure * std::min(slot.failures, 10U),
                  slot.number - slots_.front()->number);
}

void LoadThread::finish(Slot& slot, BenchTime now) {
  count(slot, now);
  const LoadOutcome& outcome = slot.connection.outcome();
  shared_.source.done(slot.connection.request(), outcome);
  const bool usable = slot.connection.usable();
  slot.failures = outcome.good ? 0 : slot.failures + 1;
  if (slot.failures > 0 && !usable) return close_after_failure(slot, now);
  if (usable) {
    watch(slot);
  } else {
    slot.connection.close();
  }
  turn(slot, now);
}

void LoadThread::handle(Slot& slot, std::uint32_t events) {
  LoadConnection& connection = slot.connection;
  if (slot.ended || connection.fd() < 0) return;
  if ((events & EPOLLOUT) != 0 && connection.busy()) {
    if (!connection.send_more()) return finish(slot, bench_now());
    watch(slot);
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  const BenchTime now = bench_now();
  const bool was_busy = connection.busy();
  const std::uint64_t before = connection.received_bytes();
  const bool ended = connection.receive(buffer_, now);
  if (was_busy && in_window(now)) tally_.bytes_in += connection.received_bytes() - before;
  if (!ended) return;
  if (was_busy) return finish(slot, now);
  connection.close();  // by the server, between two requests
}

void LoadThread::ring_alarms(BenchTime now) {
  while (!alarms_.empty() && alarms_.top().first <= now) {
    Slot& slot = *slots_[alarms_.top().second];
    alarms_.pop();
    if (!slot.ended && !slot.connection.busy()) turn(slot, now);
  }
}

void LoadThread::look_for_late(BenchTime now) {
  if (now < looked_ + kLookEvery) return;
  looked_ = now;
  const bool stop = shared_.stop.load();
  const bool interrupted = shared_.options.is_interrupted();
  for (const auto& slot : slots_) {
    if (slot->ended) continue;
    if (!slot->connection.busy()) {
      if (stop) end(*slot);
    } else if (interrupted) {
      end(*slot);
    } else if (now - slot->connection.sent() > shared_.options.timeout) {
      slot->connection.give_up("no answer in time");
      finish(*slot, now);
    }
  }
}

void LoadThread::wait(BenchTime now) {
  Duration patience = kLookEvery;
  if (!alarms_.empty()) patience = std::clamp(alarms_.top().first - now, Duration{}, patience);
  timespec most{};
  most.tv_nsec = static_cast<long>(patience.count()) * 1000;
  std::array<epoll_event, 256> events{};
  const int count =
      ::epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &most, nullptr);
  for (int i = 0; i < count; ++i) {
    handle(*static_cast<Slot*>(events[static_cast<std::size_t>(i)].data.ptr),
           events[static_cast<std::size_t>(i)].events);
  }
}

void LoadThread::run() {
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // a request begins when it is meant to
  for (const auto& slot : slots_) turn(*slot, bench_now());
  while (left_ > 0) {
    wait(bench_now());
    ring_alarms(bench_now());
    look_for_late(bench_now());
  }
  shared_.running.fetch_sub(1);
}

}  // namespace penstock
