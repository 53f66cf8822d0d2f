// Metrics of logs, accounts and exceptions.
#pragma once
#include "gateway/access_log.h"
#include "gateway/auth/accounts_follower.h"
#include "gateway/auth/refused_logins.h"
#include "penstock/metrics.h"

namespace penstock {

// Of every process that serves.
void add_collectors_of_process(Metrics& metrics);
// Those, too. Ownership: borrows all, for as long as the metrics are asked. Null: there is no
// access log, or no accounts file.
void add_collectors_of_logs(Metrics& metrics, const RefusedLogins& logins,
                            const CredentialStore& accounts, const AccessLog* access_log,
                            const AccountsFollower* follower);

}  // namespace penstock
