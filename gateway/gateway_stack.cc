#include "gateway/gateway_stack.h"

#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "gateway/http/http_metrics.h"
#include "gateway/log_metrics.h"
#include "penstock/caught.h"
#include "penstock/log.h"
#include "penstock/wait_on.h"

namespace penstock {
namespace {

constexpr std::chrono::seconds kTellEvery{1};  // of logins that nobody else tells of
constexpr std::chrono::seconds kAdminDrain{1};

HttpOptions with_memory(HttpOptions options, MemoryBudget& budget) {
  options.memory = &budget;
  return options;
}

Authenticator::Options who_may_come(const GatewayOptions& options) {
  return {options.gateway.region, options.gateway.strict_region, options.signature_v2};
}

}  // namespace

Result<std::unique_ptr<GatewayStack>> GatewayStack::make(GatewayOptions options,
                                                         GatewayParts parts) {
  TRY(objects, ObjectStack::make(parts.objects));
  return std::unique_ptr<GatewayStack>(
      new GatewayStack(std::move(options), std::move(parts), std::move(objects)));
}

GatewayStack::GatewayStack(GatewayOptions options, GatewayParts parts,
                           std::unique_ptr<ObjectStack> objects)
    : clock_(parts.objects.clock),
      first_(*parts.contexts.front()),
      credentials_(std::move(parts.accounts.store)),
      access_log_(std::move(parts.access_log)),
      objects_(std::move(objects)),
      gateway_{objects_->index(),
               objects_->blobs(),
               objects_->objects(),
               objects_->multipart(),
               parts.objects.budget,
               parts.objects.buffers,
               clock_,
               parts.objects.random,
               options.gateway},
      authenticator_(std::make_shared<Authenticator>(*credentials_, clock_, who_may_come(options))),
      metrics_(S3Service::operation_names(), S3Service::error_code_names()),
      md5_(parts.contexts.size()),
      service_(gateway_, *authenticator_, metrics_, &md5_, access_log_.get()),
      http_(std::move(parts.contexts), service_, clock_, parts.objects.random,
            with_memory(options.http, parts.objects.budget)),
      admin_(first_, metrics_, std::move(parts.readiness), clock_, parts.objects.random) {
  if (!options.accounts_file.empty()) follow_accounts(options.accounts_file, parts.accounts.root);
  add_collectors(parts.objects.budget);
}

// What the thread touches it shares: a file system that hangs may keep it.
void GatewayStack::follow_accounts(const std::string& path, const Account& root) {
  auto forget = [authenticator = authenticator_] { authenticator->forget_signing_keys(); };
  follower_ = std::make_shared<AccountsFollower>(path, root, credentials_, std::move(forget));
  auto look = [follower = follower_] { follower->look(false); };
  follower_thread_ =
      std::make_unique<SideThread>("accounts", AccountsFollower::kLookEvery, std::move(look));
}

void GatewayStack::add_collectors(const MemoryBudget& budget) {
  add_collectors_of_http(metrics_, http_);
  add_collectors_of_memory(metrics_, budget);
  objects_->add_collectors(metrics_);
  add_collectors_of_logs(metrics_, service_.refused_logins(), *credentials_, access_log_.get(),
                         follower_.get());
}

Result<> GatewayStack::listen(const Endpoint& s3, const Endpoint& admin) {
  const auto serve = [this, &s3] { return http_.listen(s3.address, s3.port); };
  CHECK_OK(call_on(first_, serve, "start"));
  const auto tell = [this, &admin] { return admin_.listen(admin.address, admin.port); };
  return call_on(first_, tell, "start");
}

void GatewayStack::begin() {
  objects_->begin_probes(first_);
  boost::asio::co_spawn(first_, tell_refused_logins(),
                        ReportThrown{"the end of the counts of refused logins"});
}

Awaitable<void> GatewayStack::tell_refused_logins() {
  while (!ending_.load()) {
    try {
      service_.refused_logins().tell_left_out();
    } catch (...) {
      report_exception("the count of refused logins");
    }
    const BootTime next = next_whole(clock_.boot(), kTellEvery);
    co_await clock_.sleep_until(next);
  }
}

void GatewayStack::hang_up() {
  log_event(LogLevel::info, "hang_up");
  if (follower_) follower_->ask();
  if (follower_thread_) follower_thread_->poke();
  if (access_log_) access_log_->reopen();
}

void GatewayStack::end_soon() {
  ending_.store(true);
  objects_->end_probes();
}

void GatewayStack::stop_requests() {
  const auto drained = wait_on(first_, http_.stop(limits::kStopDrain), "end");
  if (drained) return;
  log_event(LogLevel::warn, "requests_cut_off", {{"reason", drained.error().context}});
}

void GatewayStack::stop_admin() {
  const auto closed = wait_on(first_, admin_.stop(kAdminDrain), "end");
  if (closed) return;
  log_event(LogLevel::warn, "admin_cut_off", {{"reason", closed.error().context}});
}

void GatewayStack::drain() { wait_on(first_, objects_->drain(), "end"); }

void GatewayStack::stop_log() {
  if (access_log_) access_log_->stop();
}

}  // namespace penstock
