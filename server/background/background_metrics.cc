#include "server/background/background_metrics.h"

namespace penstock {

void add_collectors_of_background(Metrics& metrics, std::function<BackgroundStatus()> status) {
  using Sample = Metrics::Sample;
  using Samples = std::vector<Sample>;
  const auto add = [&metrics, &status](Metrics::Kind kind, const char* name, const char* help,
                          std::function<double(const BackgroundStatus&)> value) {
    metrics.add_collector(kind, name, help, [status, value = std::move(value)] {
      return Samples{Sample{{}, value(status())}};
    });
  };
  const auto gauge = Metrics::Kind::gauge;
  const auto counter = Metrics::Kind::counter;
  const auto number = [](std::uint64_t BackgroundStatus::*field) {
    return [field](const BackgroundStatus& now) {
      return static_cast<double>(now.*field);
    };
  };
  add(gauge, "penstock_background_tombstones_waiting", "Deleted registers that keep a row.",
      number(&BackgroundStatus::tombstones_waiting));
  add(gauge, "penstock_background_hints_waiting", "Removal hints on the volumes of this process.",
      number(&BackgroundStatus::hints_waiting));
  add(gauge, "penstock_background_orphan_bytes", "Unreferenced bytes that the last sweep left.",
      number(&BackgroundStatus::orphan_bytes));
  add(gauge, "penstock_background_oldest_orphan_seconds", "Since its last lease ended.",
      [](const BackgroundStatus& now) {
        return static_cast<double>(now.oldest_orphan.count()) * 1e-6;
      });
  add(gauge, "penstock_background_last_sweep_timestamp_seconds",
      "When the last whole sweep ended; 0: none yet.", [](const BackgroundStatus& now) {
        return static_cast<double>(now.last_sweep.time_since_epoch().count()) * 1e-6;
      });
  add(counter, "penstock_background_hints_done_total", "Hints worked off.",
      number(&BackgroundStatus::hints_done));
  add(counter, "penstock_background_hints_given_up_total", "Hints left to the sweep.",
      number(&BackgroundStatus::hints_given_up));
  add(counter, "penstock_background_hint_fragments_removed_total", "Fragments that hints freed.",
      number(&BackgroundStatus::fragments_removed_by_hints));
  add(counter, "penstock_background_orphans_removed_total", "Fragments that sweeps removed.",
      number(&BackgroundStatus::fragments_removed_by_sweeps));
  add(counter, "penstock_background_orphan_bytes_removed_total", "Bytes of these.",
      number(&BackgroundStatus::bytes_removed_by_sweeps));
  add(counter, "penstock_background_sweeps_total", "Whole sweeps.",
      number(&BackgroundStatus::sweeps));
  add(counter, "penstock_background_uploads_expired_total", "Open uploads that were aborted.",
      number(&BackgroundStatus::uploads_expired));
  add(counter, "penstock_background_uploads_forgotten_total", "Ended uploads that were removed.",
      number(&BackgroundStatus::uploads_forgotten));
}

}  // namespace penstock
