// A client's own buckets, which nobody else uses: what their removal may and must do.
#include "tests/sim/sim_client.h"

namespace penstock::sim {

S3Request SimClient::in_bucket(const std::string& bucket, S3Request request) {
  request.bucket = bucket;
  request.path = "/" + bucket + (request.key.empty() ? "" : "/" + request.key);
  return request;
}

Awaitable<void> SimClient::side_bucket() {
  SideBucket bucket;
  bucket.name = "side-" + std::to_string(random_.bits());
  auto make = in_bucket(bucket.name, request("PUT", ""));
  auto made = co_await ask(std::move(make));
  if (!made || made->status != 200) co_return;
  if (random_.chance(0.5)) {
    const bool striped = random_.chance(0.5);
    const std::string body(striped ? 40'000 : 100, 's');
    bucket.maybe_object = true;
    auto write = in_bucket(bucket.name, request("PUT", "object"));
    auto written = co_await ask(std::move(write), body);
    bucket.has_object = written && written->status == 200;
  }
  if (random_.chance(0.3)) {  // an upload does not hold the bucket
    auto begin = in_bucket(bucket.name, request("POST", "part", Pairs{{"uploads", ""}}));
    auto begun = co_await ask(std::move(begin));
    if (begun && begun->status == 200) {
      const std::string upload = xml_element(begun->body, "UploadId");
      const Pairs query{{"partNumber", "1"}, {"uploadId", upload}};
      auto part = in_bucket(bucket.name, request("PUT", "part", query));
      auto stored = co_await ask(std::move(part), std::string(30'000, 'p'));
      (void)stored;
    }
  }
  co_await remove_side_bucket(bucket);
  side_buckets_.push_back(std::move(bucket));
}

Awaitable<void> SimClient::remove_side_bucket(SideBucket& bucket) {
  auto asked = in_bucket(bucket.name, request("DELETE", ""));
  auto answer = co_await ask(std::move(asked));
  if (!answer) co_return;
  bucket.gone = answer->status == 204;
  if (answer->status == 204 && bucket.has_object)
    history_.violation("bucket " + bucket.name + " was removed with an object in it");
  if (answer->status == 409 && !bucket.maybe_object)
    history_.violation("bucket " + bucket.name + " is empty and was not removed");
}

// No removal stays cut off: the bucket is there or not.
Awaitable<void> SimClient::look_at_side_bucket(const SideBucket& bucket) {
  auto asked = in_bucket(bucket.name, request("HEAD", ""));
  auto answer = co_await ask(std::move(asked));
  const int status = answer ? answer->status : 0;
  if (status != 200 && status != 404)
    history_.violation("bucket " + bucket.name + " answers " + std::to_string(status) + " " +
                       (answer ? answer->body : ""));
  if (status == 200 && bucket.gone) history_.violation("bucket " + bucket.name + " came back");
  if (status == 404 && bucket.has_object)
    history_.violation("bucket " + bucket.name + " went with an object in it");
  if (status != 200 || !bucket.has_object) co_return;
  auto get = in_bucket(bucket.name, request("GET", "object"));
  auto body = co_await ask(std::move(get));
  // A body that ends early lacks fragments that went with their volumes; nothing else is excused.
  if (!body || body->status == 200 || body->is("SlowDown: fewer than")) co_return;
  history_.violation("the object of bucket " + bucket.name +
                     " is lost: " + std::to_string(body->status) + " " + body->body);
}

Awaitable<void> SimClient::look_at_side_buckets() {
  finished_ = false;
  for (const SideBucket& bucket : side_buckets_) co_await look_at_side_bucket(bucket);
  finished_ = true;
}

}  // namespace penstock::sim
