// DELETE /{bucket}/{key} and POST /{bucket}?delete.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>

#include "gateway/body/checksum_headers.h"
#include "gateway/operations/stored_bytes.h"
#include "gateway/s3/conditional.h"
#include "gateway/s3/s3_xml_input.h"
#include "penstock/async.h"
#include "penstock/caught.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

// Deletes of one request that run at once: their syncs share the volumes' group commits.
constexpr std::size_t kDeletesAtOnce = 16;

// S3 takes this request only with a check of its body.
S3Result<> check_integrity_header(const S3Request& request) {
  if (request.header("content-md5") != nullptr ||
      named_checksum(request) != ChecksumAlgorithm::none) {
    return {};
  }
  return s3_error(S3Code::InvalidRequest, "Missing required header for this request: Content-MD5");
}

// One DeleteObjects under way. Shared by its workers, which run on one executor.
struct Batch {
  Batch(Gateway& g, BucketPtr b, DeleteInput i, Deadline d)
      : gateway(g),
        bucket(std::move(b)),
        input(std::move(i)),
        deadline(d),
        errors(input.objects.size()) {}
  Gateway& gateway;
  BucketPtr bucket;
  DeleteInput input;
  Deadline deadline;
  std::vector<std::optional<S3Error>> errors;  // one per object
  std::size_t next = 0;
  std::size_t workers = 0;
  std::optional<Error> thrown;  // by a worker: nobody knows which keys it has left out
};

std::optional<S3Error> refuse_deletion(const DeleteInput::Object& object) {
  if (object.other_condition) return s3_error(S3Code::NotImplemented);
  if (object.version_id && *object.version_id != "null") return s3_error(S3Code::NoSuchVersion);
  return std::nullopt;
}

Awaitable<void> delete_some(std::shared_ptr<Batch> batch) {
  while (batch->next < batch->input.objects.size()) {
    const std::size_t index = batch->next++;
    const DeleteInput::Object& object = batch->input.objects[index];
    batch->errors[index] = refuse_deletion(object);
    if (batch->errors[index]) continue;
    Condition condition;
    if (object.etag) {
      auto wanted = wanted_etag(*object.etag);
      if (!wanted) {
        batch->errors[index] = std::move(wanted).error();
        continue;
      }
      condition.if_match = std::move(*wanted);
    }
    Result<> removed;
    try {
      removed = co_await batch->gateway.objects.remove(*batch->bucket, object.key, condition,
                                                       batch->deadline);
    } catch (...) {
      removed = error_of_exception("a deletion");
    }
    if (!removed) batch->errors[index] = write_failure(removed.error(), condition);
  }
}

// Starts the workers; the last one to end completes.
void start_workers(const std::shared_ptr<Batch>& batch, const Executor& executor,
                   const Completion<bool>& done) {
  batch->workers = std::min(kDeletesAtOnce, batch->input.objects.size());
  for (std::size_t i = batch->workers; i > 0; --i) {
    boost::asio::co_spawn(executor, delete_some(batch), [batch, done](std::exception_ptr failed) {
      if (failed) batch->thrown = error_of_exception("deletions", failed);
      if (--batch->workers > 0) return;
      done(batch->thrown ? Result<bool>(*batch->thrown) : Result<bool>(true));
    });
  }
}

// The longest possible answer. Its memory is taken before anything is deleted: nobody would learn
// from a 503 what is gone.
std::size_t result_bytes_max(const DeleteInput& input) {
  constexpr std::size_t kObject = 512;  // elements, an error
  std::size_t bytes = kObject;
  for (const auto& object : input.objects) {
    bytes += kObject + escaped_bytes_max(object.key);
    if (object.version_id) bytes += escaped_bytes_max(*object.version_id);
  }
  return bytes;
}

XmlWriter delete_result(const Batch& batch, std::size_t bytes) {
  XmlWriter xml(bytes);
  xml.open_root("DeleteResult");
  for (std::size_t i = 0; i < batch.errors.size(); ++i) {
    const auto& object = batch.input.objects[i];
    const auto& error = batch.errors[i];
    if (!error && batch.input.quiet) continue;
    const std::string_view element = error ? "Error" : "Deleted";
    xml.open(element);
    xml.element("Key", object.key);
    if (object.version_id) xml.element("VersionId", *object.version_id);
    if (error) {
      xml.element("Code", code_name(error->code));
      xml.element("Message", error_message(*error));
    }
    xml.close(element);
  }
  xml.close("DeleteResult");
  return xml;
}

}  // namespace

S3Task<S3Response> delete_object(Gateway& gateway, const S3Request& request) {
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  CO_TRY(condition, write_condition(request));
  const auto removed =
      co_await gateway.objects.remove(*bucket, request.key, condition, request.deadline);
  if (!removed) co_return write_failure(removed.error(), condition);
  S3Response response;
  response.status = 204;
  co_return std::move(response);
}

S3Task<S3Response> delete_objects(Gateway& gateway, const S3Request& request, BodyReader& body) {
  CO_CHECK(check_integrity_header(request));
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  CO_TRY(document, co_await read_document(gateway, request, body));
  CO_TRY(input, parse_delete(std::move(document.text)));
  const std::size_t bytes = result_bytes_max(input);
  CO_TRY(memory, co_await lease_document(gateway, request, bytes));
  const auto batch = std::make_shared<Batch>(gateway, std::move(bucket), std::move(input),
                                             fresh_deadline(gateway, request));
  const Executor executor = co_await boost::asio::this_coro::executor;
  auto start = [batch, executor](Completion<bool> done) { start_workers(batch, executor, done); };
  const auto finished = co_await await_completion<bool>(std::move(start));
  if (!finished) co_return to_s3(finished.error());
  for (const auto& error : batch->errors) {
    if (error && error->stale_bucket) gateway.index.forget_bucket(request.bucket);
  }
  XmlWriter xml = delete_result(*batch, bytes);
  co_return xml_response(xml, std::move(memory));
}

}  // namespace penstock
