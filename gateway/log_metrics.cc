#include "gateway/log_metrics.h"

#include "penstock/caught.h"
#include "penstock/log.h"

namespace penstock {
namespace {
using LogSamples = std::vector<Metrics::Sample>;

LogSamples one_sample(std::uint64_t value) {
  return LogSamples{Metrics::Sample{{}, static_cast<double>(value)}};
}
}  // namespace

void add_collectors_of_process(Metrics& metrics) {
  const auto counter = Metrics::Kind::counter;
  metrics.add_collector(
      counter, "penstock_exceptions_total",
      "Exceptions that ended a request, a call or a job: exception_caught in the log.",
      [] { return one_sample(exceptions_caught()); });
  metrics.add_collector(counter, "penstock_log_lines_dropped_total",
                        "Lines of the log that standard error did not take.",
                        [] { return one_sample(log_lines_dropped()); });
}

void add_collectors_of_logs(Metrics& metrics, const RefusedLogins& logins,
                            const CredentialStore& accounts, const AccessLog* access_log,
                            const AccountsFollower* follower) {
  const auto counter = Metrics::Kind::counter;
  add_collectors_of_process(metrics);
  metrics.add_collector(counter, "penstock_logins_refused_total",
                        "Requests with a signature that were not let in.",
                        [&logins] { return one_sample(logins.count()); });
  metrics.add_collector(Metrics::Kind::gauge, "penstock_accounts",
                        "Access keys in force, the root's included.",
                        [&accounts] { return one_sample(accounts.size()); });
  if (follower != nullptr) {
    metrics.add_collector(
        counter, "penstock_account_reloads_total",
        "How often the accounts file was read again, and how often it was of no use.", [follower] {
          return LogSamples{{{{"result", "ok"}}, static_cast<double>(follower->reloads())},
                            {{{"result", "failed"}}, static_cast<double>(follower->failures())}};
        });
  }
  if (access_log == nullptr) return;
  metrics.add_collector(counter, "penstock_access_log_lines_total",
                        "Lines of the access log, written or dropped.", [access_log] {
                          const auto counts = access_log->counts();
                          return LogSamples{
                              {{{"result", "written"}}, static_cast<double>(counts.written)},
                              {{{"result", "dropped"}}, static_cast<double>(counts.dropped)}};
                        });
}

}  // namespace penstock
