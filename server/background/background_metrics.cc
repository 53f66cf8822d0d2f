#include "server/background/background_metrics.h"

namespace penstock {
namespace {

// One sample per job; `what` says what it goes through.
void add_progress(Metrics& metrics, const std::function<BackgroundStatus()>& status) {
  const auto add = [&](const char* name, const char* help, double (*value)(const JobProgress&)) {
    metrics.add_collector(Metrics::Kind::gauge, name, help, [status, value] {
      std::vector<Metrics::Sample> samples;
      const BackgroundStatus now = status();
      for (const auto& [what, job] : now.jobs) {
        samples.push_back(Metrics::Sample{{{"what", what}}, value(job)});
      }
      return samples;
    });
  };
  add("penstock_background_running", "Is a pass of the job under way?",
      [](const JobProgress& job) { return job.running ? 1.0 : 0.0; });
  add("penstock_background_done", "Steps done in the pass under way, or in the last one.",
      [](const JobProgress& job) { return static_cast<double>(job.done); });
  add("penstock_background_total", "Steps of that pass, as far as they are known.",
      [](const JobProgress& job) { return static_cast<double>(job.total); });
  add("penstock_background_steps_per_second", "The rate of that pass.",
      [](const JobProgress& job) { return job.per_second; });
}

}  // namespace

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
    return [field](const BackgroundStatus& now) { return static_cast<double>(now.*field); };
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
  add(counter, "penstock_background_uploads_rolled_forward_total",
      "Completes that had stopped half-way.", number(&BackgroundStatus::uploads_rolled_forward));
  add(counter, "penstock_background_uploads_forgotten_total", "Ended uploads that were removed.",
      number(&BackgroundStatus::uploads_forgotten));
  add(counter, "penstock_background_tombstones_purged_total", "Rows of deleted things removed.",
      number(&BackgroundStatus::tombstones_purged));
  add(counter, "penstock_background_buckets_rolled_forward_total",
      "Removals of buckets that had been cut off.",
      number(&BackgroundStatus::buckets_rolled_forward));
  add(counter, "penstock_background_stray_rows_total",
      "Rows ended whose bucket or upload was gone.", number(&BackgroundStatus::stray_rows_ended));
  add_progress(metrics, status);
}

}  // namespace penstock
