// What a process that serves S3 owns, given clients of the volumes: all from objects to the two
// ports, accounts that follow their file, and the access log.
//
//   make() → collectors of others → listen() → begin() … stop_requests() → stop_admin() →
//   drain() → stop_log()
//
// Ownership: owns all its parts; what it hands out is borrowed, and valid as long as it is.
// Order of destruction: after the contexts were stopped, so that no coroutine runs while the parts
// go; before what it borrows. Connections that stop_requests() did not end are destroyed with the
// contexts, and give memory back to the budget then.
// Thread-safety: the calls from one thread, which runs none of the contexts; what the parts allow
// is said there.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gateway/access_log.h"
#include "gateway/admin_server.h"
#include "gateway/auth/accounts_follower.h"
#include "gateway/auth/authenticator.h"
#include "gateway/http/http_server.h"
#include "gateway/http/side_thread.h"
#include "gateway/local_arguments.h"
#include "gateway/operations/operations.h"
#include "gateway/s3_service.h"
#include "penstock/md5_services.h"
#include "penstock/metrics.h"
#include "server/objects/object_stack.h"

namespace penstock {

struct GatewayOptions {
  GatewayConfig gateway;
  bool signature_v2 = true;
  HttpOptions http;           // its memory is the budget of the parts
  std::string accounts_file;  // followed; empty: there are only those given
};

struct GatewayParts {
  std::vector<boost::asio::io_context*> contexts;  // each run by one thread. Borrowed
  ObjectStackParts objects;                        // with what the gateway borrows for itself
  LoadedAccounts accounts;                         // in force at the start
  std::unique_ptr<AccessLog> access_log;           // null: none
  std::function<Readiness()> readiness;            // asked by /readyz: AdminService
};

class GatewayStack {
 public:
  // Nothing is served yet. Errors: ObjectStack::make()'s.
  static Result<std::unique_ptr<GatewayStack>> make(GatewayOptions options, GatewayParts parts);

  ObjectStack& objects() { return *objects_; }
  // Collectors are added before listen().
  Metrics& metrics() { return metrics_; }

  // Serves from now on. Errors: HttpServer::listen()'s.
  Result<> listen(const Endpoint& s3, const Endpoint& admin);
  std::uint16_t s3_port() const { return http_.port(); }
  std::uint16_t admin_port() const { return admin_.port(); }
  // What goes on beside requests: probes of suspects, and lines that others have to tell.
  void begin();

  // SIGHUP: accounts are read again, the access log is opened anew.
  void hang_up();

  // ---- the end, in this order; each blocks. Pre: the contexts run.
  // Takes no more requests and lets those in work end, for limits::kStopDrain; the rest is cut off.
  void stop_requests();
  void stop_admin();
  // Until no register call is under way. Before the volumes go.
  void drain();
  // Writes what waits. Nobody needs the contexts for it.
  void stop_log();
  // At any time, also without the others: what begin() began ends a moment later, or is cut off
  // with the contexts.
  void end_soon();

 private:
  GatewayStack(GatewayOptions options, GatewayParts parts, std::unique_ptr<ObjectStack> objects);
  void follow_accounts(const std::string& path, const Account& root);
  void add_collectors(const MemoryBudget& budget);
  Awaitable<void> tell_refused_logins();

  Clock& clock_;
  boost::asio::io_context& first_;
  // Each uses those above it.
  std::shared_ptr<CredentialStore> credentials_;  // with threads that read files
  std::unique_ptr<AccessLog> access_log_;
  std::unique_ptr<ObjectStack> objects_;
  Gateway gateway_;
  std::shared_ptr<Authenticator> authenticator_;  // with the next one's thread
  std::shared_ptr<AccountsFollower> follower_;    // the same; null: there is no file
  std::unique_ptr<SideThread> follower_thread_;
  Metrics metrics_;
  Md5Services md5_;
  S3Service service_;
  HttpServer http_;
  AdminServer admin_;
  std::atomic<bool> ending_{false};
};

}  // namespace penstock
