#include "server/transport/call_counters.h"

namespace penstock {

CallKind kind_of(wire::Operation operation) {
  using wire::Operation;
  switch (operation) {
    case Operation::prepare:
    case Operation::accept:
    case Operation::read:
    case Operation::scan:
    case Operation::drop:
      return CallKind::record;
    case Operation::read_fragment:
      return CallKind::read;
    case Operation::write_fragment:
    case Operation::append:
    case Operation::commit:
    case Operation::pin:
      return CallKind::write;
    default:
      return CallKind::upkeep;
  }
}

CallCounts& CallCounts::operator+=(const CallCounts& other) {
  for (std::size_t i = 0; i < kOperations; ++i) {
    for (std::size_t k = 0; k < calls[i].size(); ++k) calls[i][k] += other.calls[i][k];
  }
  for (std::size_t i = 0; i < kErrorCodes; ++i) errors[i] += other.errors[i];
  for (std::size_t i = 0; i < durations.size(); ++i) durations[i] += other.durations[i];
  bytes_in += other.bytes_in;
  bytes_out += other.bytes_out;
  under_way += other.under_way;
  return *this;
}

void CallCounters::count(wire::Operation operation, CallOutcome outcome,
                         std::optional<Errc> error) {
  const std::size_t index = wire::is_known(operation) ? static_cast<std::size_t>(operation) : 0;
  calls_[index][static_cast<std::size_t>(outcome)].fetch_add(1, std::memory_order_relaxed);
  if (error) add_error(*error);
}

void CallCounters::add_error(Errc error) {
  errors_[static_cast<std::size_t>(error)].fetch_add(1, std::memory_order_relaxed);
}

void CallCounters::end(wire::Operation operation, CallOutcome outcome, std::optional<Errc> error,
                       Duration took) {
  durations_[static_cast<std::size_t>(kind_of(operation))].record(took);
  count(operation, outcome, error);
}

void CallCounters::refuse(wire::Operation operation, Errc error) {
  count(operation, CallOutcome::unsent, error);
}

CallCounts CallCounters::counts() const {
  const auto load = [](const std::atomic<std::uint64_t>& number) {
    return number.load(std::memory_order_relaxed);
  };
  CallCounts counts;
  for (std::size_t i = 0; i < kOperations; ++i) {
    for (std::size_t k = 0; k < calls_[i].size(); ++k) counts.calls[i][k] = load(calls_[i][k]);
  }
  for (std::size_t i = 0; i < kErrorCodes; ++i) counts.errors[i] = load(errors_[i]);
  for (std::size_t i = 0; i < durations_.size(); ++i) counts.durations[i] = durations_[i].counts();
  counts.bytes_in = load(bytes_in_);
  counts.bytes_out = load(bytes_out_);
  counts.under_way = load(under_way_);
  return counts;
}

}  // namespace penstock
