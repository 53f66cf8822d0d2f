#include "tests/sim/sim_client.h"

#include <algorithm>

#include "penstock/text_codec.h"

namespace penstock::sim {
namespace {
using Pairs = std::vector<std::pair<std::string, std::string>>;
using Answer = SimGateway::Answer;

std::string quoted(const std::string& etag) { return "\"" + etag + "\""; }

std::string element(const std::string& xml, const std::string& name) {
  const auto begin = xml.find("<" + name + ">");
  if (begin == std::string::npos) return {};
  const auto from = begin + name.size() + 2;
  return xml.substr(from, xml.find('<', from) - from);
}
}  // namespace

SimClient::SimClient(SimTime& time, SimRandom& random, History& history, PickGateway gateway,
                     ClientPlan plan)
    : time_(time),
      random_(random),
      history_(history),
      pick_(std::move(gateway)),
      plan_(std::move(plan)) {}

S3Request SimClient::request(std::string method, std::string key, Pairs query, Pairs headers) {
  S3Request request;
  request.method = std::move(method);
  request.bucket = kBucket;
  request.path = "/" + request.bucket + (key.empty() ? "" : "/" + key);
  request.key = std::move(key);
  request.query = std::move(query);
  request.headers = std::move(headers);
  return request;
}

std::uint64_t SimClient::pick_size() {
  switch (random_.between(0, 3)) {
    case 0:
      return static_cast<std::uint64_t>(random_.between(0, 600));
    case 1:
      return static_cast<std::uint64_t>(random_.between(1, 20'000));
    default:
      return static_cast<std::uint64_t>(
          random_.between(1, static_cast<std::int64_t>(plan_.size_max)));
  }
}

Awaitable<void> SimClient::run() {
  for (int i = 0; i < plan_.operations; ++i) {
    auto gateway = pick_();
    const auto pause = Duration(random_.between(1, plan_.think_max));
    co_await gateway->clock().sleep_until(gateway->clock().boot() + pause);
    std::string key = plan_.keys[static_cast<std::size_t>(
        random_.between(0, static_cast<std::int64_t>(plan_.keys.size()) - 1))];
    const auto dice = random_.between(0, 99);
    if (dice < 34)
      co_await put(key);
    else if (dice < 56)
      co_await get(key);
    else if (dice < 64)
      co_await get_range(key);
    else if (dice < 69)
      co_await head(key);
    else if (dice < 79)
      co_await remove(key);
    else if (dice < 84)
      co_await copy(key);
    else if (dice < 92)
      co_await multipart(key);
    else if (dice < 95)
      co_await side_bucket();
    else
      co_await list();
  }
  finished_ = true;
}

Awaitable<void> SimClient::read_all() {
  finished_ = false;
  for (const auto& key : plan_.keys) co_await get(key);
  co_await list();
  finished_ = true;
}

Awaitable<void> SimClient::look_at_side_buckets() {
  finished_ = false;
  for (const SideBucket& bucket : side_buckets_) co_await look_at_side_bucket(bucket);
  finished_ = true;
}

void SimClient::note_write(const std::string& key, Operation operation,
                           const Result<Answer>& answer, int expected) {
  if (answer && answer->status == expected) {
    operation.outcome = Operation::Outcome::ok;
    operation.answer = time_.now();
    seen_[key] =
        Seen{operation.value, operation.value == 0 ? "" : history_.write(operation.value).etag};
  } else if (answer && (answer->status == 412 || answer->status == 404) &&
             operation.condition != Operation::Condition::none) {
    operation.outcome = Operation::Outcome::refused;
    operation.answer = time_.now();
  } else {
    operation.outcome = Operation::Outcome::unknown;
    if (answer && answer->status != 503 && answer->status != 500) {
      history_.violation("write to " + key + " answered " + std::to_string(answer->status) + " " +
                         answer->body);
    }
  }
  history_.add(key, operation);
}

Awaitable<void> SimClient::put(std::string key) {
  const auto size = pick_size();
  const Value number = history_.new_write(key, size, "");
  std::string body = body_of(number, 0, size);
  history_.write(number).etag = quoted(hex_md5(body));
  Operation operation;
  operation.kind = Operation::Kind::write;
  operation.value = number;
  Pairs headers;
  if (random_.chance(0.2)) {
    operation.condition = Operation::Condition::must_be_absent;
    headers.emplace_back("if-none-match", "*");
  } else if (random_.chance(0.25) && seen_[key].value != 0) {
    operation.condition = Operation::Condition::must_be;
    operation.expected = seen_[key].value;
    headers.emplace_back("if-match", seen_[key].etag);
  }
  auto gateway = pick_();
  operation.call = time_.now();
  auto asked = request("PUT", key, {}, headers);
  auto answer = co_await gateway->call(std::move(asked), std::move(body));
  note_write(key, operation, answer, 200);
}

Awaitable<void> SimClient::remove(std::string key) {
  Operation operation;
  operation.kind = Operation::Kind::write;
  operation.value = 0;
  operation.call = time_.now();
  auto gateway = pick_();
  auto asked = request("DELETE", key);
  auto answer = co_await gateway->call(std::move(asked), "");
  note_write(key, operation, answer, 204);
}

Value SimClient::judge_body(const std::string& key, const Answer& answer, std::uint64_t offset,
                            std::uint64_t length) {
  const std::string etag = answer.header("ETag");
  const Value number = history_.by_etag(key, etag);
  if (number == 0) {
    history_.violation("GET " + key + " shows ETag " + etag + " that nobody wrote");
    return 0;
  }
  const auto& write = history_.write(number);
  const auto end = std::min(write.length, offset + length);
  if (answer.body != body_of(number, offset, end - offset)) {
    history_.violation("GET " + key + " of write " + std::to_string(number) +
                       " has wrong bytes in [" + std::to_string(offset) + ", " +
                       std::to_string(end) + "), got " + std::to_string(answer.body.size()));
  }
  return number;
}

Awaitable<void> SimClient::get(std::string key) {
  Operation operation;
  operation.call = time_.now();
  auto gateway = pick_();
  auto asked = request("GET", key);
  auto answer = co_await gateway->call(std::move(asked), "");
  operation.answer = time_.now();
  if (!answer || answer->status == 503 || answer->status == 500) co_return;  // says nothing
  if (answer->status == 200) {
    operation.value = judge_body(key, *answer, 0, ~std::uint64_t{0} >> 1);
  } else if (answer->status != 404) {
    history_.violation("GET " + key + " answered " + std::to_string(answer->status) + " " +
                       answer->body);
    co_return;
  }
  seen_[key] = Seen{operation.value, answer->header("ETag")};
  history_.add(key, operation);
}

Awaitable<void> SimClient::get_range(std::string key) {
  const auto offset = static_cast<std::uint64_t>(random_.between(0, 100'000));
  const auto length = static_cast<std::uint64_t>(random_.between(1, 100'000));
  Operation operation;
  operation.call = time_.now();
  auto gateway = pick_();
  Pairs headers;
  headers.emplace_back(
      "range", "bytes=" + std::to_string(offset) + "-" + std::to_string(offset + length - 1));
  auto asked = request("GET", key, {}, headers);
  auto answer = co_await gateway->call(std::move(asked), "");
  operation.answer = time_.now();
  if (!answer || answer->status == 503 || answer->status == 500 || answer->status == 416) co_return;
  if (answer->status == 206) {
    operation.value = judge_body(key, *answer, offset, length);
  } else if (answer->status != 404) {
    history_.violation("ranged GET " + key + " answered " + std::to_string(answer->status) + " " +
                       answer->body);
    co_return;
  }
  history_.add(key, operation);
}

Awaitable<void> SimClient::head(std::string key) {
  Operation operation;
  operation.call = time_.now();
  auto gateway = pick_();
  auto asked = request("HEAD", key);
  auto answer = co_await gateway->call(std::move(asked), "");
  operation.answer = time_.now();
  if (!answer || (answer->status != 200 && answer->status != 404)) co_return;
  if (answer->status == 200) operation.value = history_.by_etag(key, answer->header("ETag"));
  if (answer->status == 200 && operation.value == 0)
    history_.violation("HEAD " + key + " shows an ETag that nobody wrote");
  history_.add(key, operation);
}

// A copy of some other key reads one write and makes a new one with its bytes; here onto a key of
// its own, checked by its ETag.
Awaitable<void> SimClient::copy(std::string key) {
  auto gateway = pick_();
  Pairs headers;
  headers.emplace_back("x-amz-copy-source", std::string(kBucket) + "/" + key);
  auto asked = request("PUT", "copy-" + key, {}, headers);
  auto answer = co_await gateway->call(std::move(asked), "");
  if (!answer || answer->status != 200) co_return;
  auto check = request("GET", "copy-" + key);
  auto copied = co_await gateway->call(std::move(check), "");
  if (!copied || copied->status != 200) co_return;
  const std::string etag = copied->header("ETag");
  const bool plain = etag.find('-') == std::string::npos;
  if (plain && etag != quoted(hex_md5(copied->body)))
    history_.violation("copy of " + key + " does not match its ETag");
}

Awaitable<void> SimClient::multipart(std::string key) {
  auto gateway = pick_();
  auto begin = request("POST", key, Pairs{{"uploads", ""}});
  auto created = co_await gateway->call(std::move(begin), "");
  if (!created || created->status != 200) co_return;
  const std::string upload = element(created->body, "UploadId");
  const auto size = std::max<std::uint64_t>(1, pick_size());
  const Value number = history_.new_write(key, size, "");
  const std::string body = body_of(number, 0, size);
  const int tries = random_.chance(0.3) ? 2 : 1;  // a part may be sent again
  bool stored = false;
  for (int i = 0; i < tries; ++i) {
    gateway = pick_();
    auto part = request("PUT", key, Pairs{{"partNumber", "1"}, {"uploadId", upload}});
    auto answer = co_await gateway->call(std::move(part), body);
    stored = stored || (answer && answer->status == 200);
  }
  const auto digest = penstock::md5(as_bytes(body));
  const std::string raw(reinterpret_cast<const char*>(digest.data()), digest.size());
  history_.write(number).etag = quoted(hex_md5(raw) + "-1");
  gateway = pick_();
  if (!stored || random_.chance(0.15)) {
    auto stop = request("DELETE", key, Pairs{{"uploadId", upload}});
    auto aborted = co_await gateway->call(std::move(stop), "");
    (void)aborted;  // nothing became visible either way
    co_return;
  }
  const std::string xml = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" +
                          hex_md5(body) + "</ETag></Part></CompleteMultipartUpload>";
  Operation operation;
  operation.kind = Operation::Kind::write;
  operation.value = number;
  operation.call = time_.now();
  auto end = request("POST", key, Pairs{{"uploadId", upload}});
  auto answer = co_await gateway->call(std::move(end), xml);
  note_write(key, operation, answer, 200);
}

Awaitable<void> SimClient::list() {
  History::Listing listing;
  listing.call = time_.now();
  std::string token;
  for (int page = 0; page < 50; ++page) {
    auto gateway = pick_();
    Pairs query{
        {"list-type", "2"}, {"prefix", "key"}, {"max-keys", std::to_string(random_.between(1, 5))}};
    if (!token.empty()) query.emplace_back("continuation-token", token);
    auto asked = request("GET", "", query);
    auto answer = co_await gateway->call(std::move(asked), "");
    if (!answer || answer->status != 200) co_return;  // says nothing
    std::string last;
    for (auto at = answer->body.find("<Contents>"); at != std::string::npos;
         at = answer->body.find("<Contents>", at + 1)) {
      const auto entry = answer->body.substr(at, answer->body.find("</Contents>", at) - at);
      const auto name = element(entry, "Key");
      auto etag = element(entry, "ETag");
      for (auto quote = etag.find("&quot;"); quote != std::string::npos;
           quote = etag.find("&quot;"))
        etag.replace(quote, 6, "\"");
      if (name <= last || !listing.seen.emplace(name, etag).second)
        history_.violation("LIST is out of order at " + name);
      last = name;
    }
    token = element(answer->body, "NextContinuationToken");
    if (element(answer->body, "IsTruncated") != "true") break;
    if (token.empty()) {
      history_.violation("a truncated LIST without a token");
      co_return;
    }
  }
  listing.answer = time_.now();
  history_.add(std::move(listing));
}

S3Request SimClient::in_bucket(const std::string& bucket, S3Request request) {
  request.bucket = bucket;
  request.path = "/" + bucket + (request.key.empty() ? "" : "/" + request.key);
  return request;
}

Awaitable<void> SimClient::side_bucket() {
  SideBucket bucket;
  bucket.name = "side-" + std::to_string(random_.bits());
  auto gateway = pick_();
  auto make = in_bucket(bucket.name, request("PUT", ""));
  auto made = co_await gateway->call(std::move(make), "");
  if (!made || made->status != 200) co_return;
  if (random_.chance(0.5)) {
    const bool striped = random_.chance(0.5);
    const std::string body(striped ? 40'000 : 100, 's');
    bucket.maybe_object = true;
    gateway = pick_();
    auto write = in_bucket(bucket.name, request("PUT", "object"));
    auto written = co_await gateway->call(std::move(write), body);
    bucket.has_object = written && written->status == 200;
  }
  if (random_.chance(0.3)) {  // an upload does not hold the bucket
    gateway = pick_();
    auto begin = in_bucket(bucket.name, request("POST", "part", Pairs{{"uploads", ""}}));
    auto begun = co_await gateway->call(std::move(begin), "");
    if (begun && begun->status == 200) {
      const std::string upload = element(begun->body, "UploadId");
      const Pairs query{{"partNumber", "1"}, {"uploadId", upload}};
      auto part = in_bucket(bucket.name, request("PUT", "part", query));
      auto stored = co_await gateway->call(std::move(part), std::string(30'000, 'p'));
      (void)stored;
    }
  }
  co_await remove_side_bucket(bucket);
  side_buckets_.push_back(std::move(bucket));
}

Awaitable<void> SimClient::remove_side_bucket(SideBucket& bucket) {
  auto gateway = pick_();
  auto asked = in_bucket(bucket.name, request("DELETE", ""));
  auto answer = co_await gateway->call(std::move(asked), "");
  if (!answer) co_return;
  bucket.gone = answer->status == 204;
  if (answer->status == 204 && bucket.has_object)
    history_.violation("bucket " + bucket.name + " was removed with an object in it");
  if (answer->status == 409 && !bucket.maybe_object)
    history_.violation("bucket " + bucket.name + " is empty and was not removed");
}

// No removal stays cut off: the bucket is there or not.
Awaitable<void> SimClient::look_at_side_bucket(const SideBucket& bucket) {
  auto gateway = pick_();
  auto asked = in_bucket(bucket.name, request("HEAD", ""));
  auto answer = co_await gateway->call(std::move(asked), "");
  const int status = answer ? answer->status : 0;
  if (status != 200 && status != 404)
    history_.violation("bucket " + bucket.name + " answers " + std::to_string(status) + " " +
                       (answer ? answer->body : ""));
  if (status == 200 && bucket.gone)
    history_.violation("bucket " + bucket.name + " came back");
  if (status == 404 && bucket.has_object)
    history_.violation("bucket " + bucket.name + " went with an object in it");
  if (status != 200 || !bucket.has_object) co_return;
  auto get = in_bucket(bucket.name, request("GET", "object"));
  auto body = co_await gateway->call(std::move(get), "");
  if (!body || body->status != 200)
    history_.violation("the object of bucket " + bucket.name + " is lost");
}

}  // namespace penstock::sim
