// The way of one request through the gateway: read its head, find the operation it asks for,
// authenticate the caller, run the operation, answer.
#pragma once
#include <string>
#include <vector>

#include "gateway/access_log.h"
#include "gateway/auth/authenticator.h"
#include "gateway/auth/refused_logins.h"
#include "gateway/http/http_exchange.h"
#include "gateway/operations/operations.h"
#include "penstock/log_budget.h"
#include "penstock/md5_services.h"
#include "penstock/metrics.h"

namespace penstock {

// Thread-safety: handle() runs on every I/O thread. Ownership: borrows all.
class S3Service final : public Service {
 public:
  // `md5`: hashes large bodies; null: on the I/O thread. `access_log`: null: none.
  S3Service(Gateway& gateway, Authenticator& authenticator, Metrics& metrics,
            Md5Services* md5 = nullptr, AccessLog* access_log = nullptr);

  // The label values that record what this service does, for the constructor of Metrics.
  static std::vector<std::string> operation_names();
  static std::vector<std::string> error_code_names();

  // An exception of an operation becomes an answer, too: 503 for lack of memory, else 500.
  Awaitable<void> handle(HttpExchange& exchange) override;
  void refused(const HttpExchange& exchange, const S3Error& error) override;

  RefusedLogins& refused_logins() { return refused_logins_; }

 private:
  struct Call;

  S3Task<S3Response> run(Call& call);
  static void find_operation(Call& call);
  S3Result<AuthResult> authenticate(Call& call);
  static void tell_times(const Call& call, S3Response& response);
  Awaitable<void> deliver(Call& call, S3Result<S3Response> result);
  S3Task<> count_document(const Call& call, S3Response& response);
  Task<> send_error(Call& call, S3Error error);
  void log_failure(const Call& call, const S3Error& error);
  void finish(Call& call);
  void log_access(const Call& call);

  Gateway& gateway_;
  Authenticator& authenticator_;
  Metrics& metrics_;
  Md5Services* md5_;
  AccessLog* access_log_;
  RefusedLogins refused_logins_;
  LogBudget failure_lines_;
};

}  // namespace penstock
