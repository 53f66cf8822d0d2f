#include "gateway/s3_service.h"

#include <memory>

#include "gateway/auth/query_headers.h"
#include "gateway/body/body_reader.h"
#include "gateway/request_head.h"
#include "gateway/s3/request_times.h"
#include "gateway/s3/trace_parent.h"
#include "penstock/caught.h"
#include "penstock/limits.h"
#include "penstock/log.h"
#include "penstock/request_name.h"

namespace penstock {
namespace {
constexpr std::size_t kErrorCodes = static_cast<std::size_t>(S3Code::NotModified) + 1;
constexpr std::size_t kUnreadable = kOperationCount;  // the label of requests that ask for nothing
constexpr std::string_view kUnreadableName = "Unreadable";
constexpr int kInternalServerError = 500;
constexpr int kFailureLinesPerSecond = 50;

// An upload must announce its length: one that is cut off would pass for a shorter object.
bool lacks_length(Operation operation, const HeadFraming& framing) {
  const bool upload = operation == Operation::PutObject || operation == Operation::UploadPart;
  return upload && !framing.chunked && !framing.content_length;
}

// Of the body nobody knows how much was read.
S3Error error_of_thrown(const std::exception_ptr& thrown) {
  const bool memory = is_out_of_memory(thrown);
  S3Error error = s3_error(memory ? S3Code::SlowDown : S3Code::InternalError);
  error.cause = error_of_exception("a request", thrown).context;
  error.close = true;
  return error;
}

bool is_uncounted_text(const S3Response& response) {
  const auto* text = std::get_if<std::string>(&response.body);
  return text != nullptr && text->size() > limits::kFreeDocumentBytes &&
         response.memory.bytes() < text->capacity();
}
}  // namespace

// One request on its way. Lives in the frame of handle(): response bodies may refer to the request.
struct S3Service::Call {
  Call(HttpExchange& the_exchange, Metrics& metrics, const Clock& clock)
      : exchange(the_exchange), timer(metrics, clock, kUnreadable) {}

  HttpExchange& exchange;
  OperationTimer timer;
  S3Request request;
  RequestTimes times;  // if the client wants them
  Operation operation = Operation::NotImplemented;
  std::unique_ptr<BodyReader> body;
  int status = 0;          // of the answer
  std::string_view error;  // its code
  bool readable = false;   // the request asks for something
  bool cut_off = false;    // the connection ended before the answer did
};

S3Service::S3Service(Gateway& gateway, Authenticator& authenticator, Metrics& metrics,
                     Md5Services* md5, AccessLog* access_log)
    : gateway_(gateway),
      authenticator_(authenticator),
      metrics_(metrics),
      md5_(md5),
      access_log_(access_log),
      refused_logins_(gateway.clock),
      failure_lines_(kFailureLinesPerSecond) {}

std::vector<std::string> S3Service::operation_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kOperationCount; ++i) {
    names.emplace_back(to_string(static_cast<Operation>(i)));
  }
  names.emplace_back(kUnreadableName);
  return names;
}

std::vector<std::string> S3Service::error_code_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kErrorCodes; ++i) {
    names.emplace_back(code_name(static_cast<S3Code>(i)));
  }
  return names;
}

void S3Service::find_operation(Call& call) {
  call.operation = route(call.request);
  call.timer.set_operation(static_cast<std::size_t>(call.operation));
}

Awaitable<void> S3Service::handle(HttpExchange& exchange) {
  Call call(exchange, metrics_, gateway_.clock);
  S3Result<S3Response> result = s3_error(S3Code::InternalError);
  try {
    result = co_await run(call);
  } catch (...) {
    result = error_of_thrown(std::current_exception());
  }
  co_await deliver(call, std::move(result));
  finish(call);
}

void S3Service::refused(const HttpExchange& exchange, const S3Error& error) {
  if (access_log_ == nullptr) return;
  const std::string address = exchange.remote();
  AccessEntry entry;
  entry.time = gateway_.clock.wall();
  entry.address = address;
  entry.operation = kUnreadableName;
  entry.status = http_status(error.code);
  entry.error = code_name(error.code);
  entry.bytes_out = exchange.body_bytes_sent();
  entry.request_id = exchange.request_id();
  access_log_->write(entry);
}

S3Task<S3Response> S3Service::run(Call& call) {
  const HttpHead& head = call.exchange.head();
  auto request = make_s3_request(head, gateway_.config.domains);
  if (!request) {
    call.request.path = std::string(head.target.substr(0, head.target.find('?')));
    co_return std::move(request).error();
  }
  call.request = std::move(request).value();
  call.readable = true;
  call.request.request_id = std::string(call.exchange.request_id());
  call.request.deadline = {call.timer.start() + limits::kOperationDeadline,
                           Trace{request_number(call.request.request_id), trace_of(call.request)}};
  const std::string* timing = call.request.header("x-penstock-timing");
  if (timing != nullptr && *timing == "1") call.request.times = &call.times;
  call.request.file_pieces = call.exchange.file_pieces();
  find_operation(call);

  // Browsers send these unsigned, and neither could succeed.
  if (call.operation == Operation::Preflight) co_return refuse_preflight(call.request);
  if (call.operation == Operation::PostObject) co_return refuse_form();
  auto identity = authenticate(call);
  if (!identity) {
    refused_logins_.tell(call.request, call.exchange.remote(), identity.error());
    co_return std::move(identity).error();
  }
  call.request.principal = std::move(identity.value().principal);
  CO_CHECK(take_query_headers(call.request, identity.value().by));
  find_operation(call);  // a link may have named the source of a copy
  call.request.memory = gateway_.memory.account(call.request.principal.account_id);
  if (lacks_length(call.operation, head.framing)) {
    co_return s3_error(S3Code::MissingContentLength);
  }
  auto body =
      make_body_reader(call.request, std::move(identity.value().payload), call.exchange.body(),
                       md5_ != nullptr ? &md5_->of_this_thread() : nullptr);
  if (!body) co_return std::move(body).error();
  call.body = std::move(body).value();
  const PhaseTimer timer(call.request.times, gateway_.clock, Phase::record);
  co_return co_await run_operation(gateway_, call.operation, call.request, *call.body);
}

S3Result<AuthResult> S3Service::authenticate(Call& call) {
  const PhaseTimer timer(call.request.times, gateway_.clock, Phase::auth);
  return authenticator_.authenticate(call.request);
}

// A document stays in memory until the client has taken it. Lists, the longest, have theirs counted
// before they are made.
S3Task<> S3Service::count_document(const Call& call, S3Response& response) {
  const PhaseTimer timer(call.request.times, gateway_.clock, Phase::queue);
  const std::size_t bytes = std::get<std::string>(response.body).capacity();
  const MemoryUser user{MemoryUse::documents, call.request.memory};
  const BootTime until = gateway_.clock.boot() + limits::kMemoryWait;
  auto memory = co_await gateway_.memory.take_patiently(gateway_.clock, user, bytes, until);
  if (!memory) co_return to_s3(memory.error());
  response.memory = std::move(*memory);
  co_return S3Result<>{};
}

void S3Service::tell_times(const Call& call, S3Response& response) {
  if (call.request.times != nullptr) response.set("Server-Timing", call.times.header());
}

Awaitable<void> S3Service::deliver(Call& call, S3Result<S3Response> result) {
  if (result && is_uncounted_text(result.value())) {
    const auto counted = co_await count_document(call, result.value());
    if (!counted) result = counted.error();
  }
  if (result) {
    call.status = result.value().status;
    tell_times(call, result.value());
    const auto sent = co_await call.exchange.send(std::move(result).value(), false);
    call.cut_off = !sent;
    if (sent || call.exchange.answered()) co_return;
    result = to_s3(sent.error());  // the body failed before its first byte
  }
  const auto sent = co_await send_error(call, std::move(result).error());
  // The client is gone, or will see the connection end: there is nobody left to tell.
  call.cut_off = !sent;
  if (!sent) call.status = 0;
}

Task<> S3Service::send_error(Call& call, S3Error error) {
  call.timer.set_error(static_cast<std::size_t>(error.code));
  call.error = code_name(error.code);
  S3Response response;
  if (error.code != S3Code::NotModified) {
    response.set_xml(
        error_xml(error, call.request.path, call.exchange.request_id(), call.exchange.host_id()));
  }
  call.status = response.status = http_status(error.code);
  for (auto& header : error.headers) response.headers.push_back(std::move(header));
  if (call.operation == Operation::HeadBucket && call.request.principal.account_id.empty()) {
    // Clients find a bucket's region by an unsigned HEAD.
    response.set("x-amz-bucket-region", gateway_.config.region);
  }
  tell_times(call, response);
  if (call.status >= kInternalServerError) log_failure(call, error);
  co_return co_await call.exchange.send(std::move(response), error.close);
}

// A storm of refusals must not fill the disk: the metrics count what the log leaves out.
void S3Service::log_failure(const Call& call, const S3Error& error) {
  if (!failure_lines_.take(gateway_.clock.boot())) return;
  const bool ours = call.status == kInternalServerError;
  log_event(ours ? LogLevel::error : LogLevel::warn, "request_failed",
            {{"request_id", std::string(call.exchange.request_id())},
             trace_field(call.request.deadline.trace()),
             {"operation", std::string(to_string(call.operation))},
             {"path", call.request.path},
             {"status", std::to_string(call.status)},
             {"code", std::string(code_name(error.code))},
             {"reason", error.cause.empty() ? std::string(error_message(error)) : error.cause}});
}

void S3Service::finish(Call& call) {
  call.timer.add_bytes_in(call.exchange.body_bytes_read());
  call.timer.add_bytes_out(call.exchange.body_bytes_sent());
  if (access_log_ != nullptr) log_access(call);
  if (!log_enabled(LogLevel::debug)) return;
  log_event(LogLevel::debug, "request",
            {{"request_id", std::string(call.exchange.request_id())},
             trace_field(call.request.deadline.trace()),
             {"operation", std::string(to_string(call.operation))},
             {"method", call.request.method},
             {"path", call.request.path},
             {"account", call.request.principal.account_id},
             {"status", std::to_string(call.status)},
             {"bytes_in", std::to_string(call.exchange.body_bytes_read())},
             {"bytes_out", std::to_string(call.exchange.body_bytes_sent())},
             {"duration_us", std::to_string(call.timer.elapsed().count())}});
}

void S3Service::log_access(const Call& call) {
  const std::string address = call.exchange.remote();
  const HttpHead& head = call.exchange.head();
  AccessEntry entry;
  entry.time = gateway_.clock.wall();
  entry.address = address;
  entry.account = call.request.principal.account_id;
  entry.access_key = call.request.principal.access_key;
  entry.operation = call.readable ? to_string(call.operation) : kUnreadableName;
  entry.method = head.method;
  entry.bucket = call.request.bucket;
  entry.key = call.request.key;
  entry.status = call.status;
  entry.error = call.error;
  entry.bytes_in = call.exchange.body_bytes_read();
  entry.bytes_out = call.exchange.body_bytes_sent();
  entry.took = call.timer.elapsed();
  entry.request_id = call.exchange.request_id();
  entry.trace = call.request.deadline.trace();
  entry.range = head.field("range").value_or("");
  entry.user_agent = head.field("user-agent").value_or("");
  // Not the query: a link lets its bearer in.
  if (!call.readable) entry.target = head.target.substr(0, head.target.find('?'));
  entry.cut_off = call.cut_off;
  access_log_->write(entry);
}

}  // namespace penstock
