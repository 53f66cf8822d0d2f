#include "tests/sim/sim_client.h"

#include <algorithm>
#include <numeric>

namespace penstock::sim {
namespace {
// A store that is stuck by then shows no more with a second request than with the first.
constexpr SimMicros kLastBegin = 60 * kSecond;
}  // namespace

std::string xml_element(const std::string& xml, const std::string& name) {
  const auto begin = xml.find("<" + name + ">");
  if (begin == std::string::npos) return {};
  const auto from = begin + name.size() + 2;
  return xml.substr(from, xml.find('<', from) - from);
}

std::vector<std::string> xml_elements(const std::string& xml, const std::string& name) {
  const std::string open = "<" + name + ">", close = "</" + name + ">";
  std::vector<std::string> found;
  for (auto at = xml.find(open); at != std::string::npos; at = xml.find(open, at + 1)) {
    found.push_back(xml.substr(at, xml.find(close, at) - at));
  }
  return found;
}

std::string xml_etag(const std::string& xml) {
  auto etag = xml_element(xml, "ETag");
  for (auto at = etag.find("&quot;"); at != std::string::npos; at = etag.find("&quot;"))
    etag.replace(at, 6, "\"");
  return etag;
}

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

Task<SimGateway::Answer> SimClient::ask(S3Request request, std::string body) {
  const auto gateway = pick_();
  const SimMicros call = time_.now();
  const std::string what = request.method + " " + request.path;
  const bool may_come_again = quiet_ && (request.method == "GET" || request.method == "HEAD");
  const S3Request again = request;
  auto answer = co_await gateway->call(std::move(request), std::move(body));
  // With p volumes gone each of the others must answer in time, which a slow disk may not.
  for (int tries = 0; may_come_again && tries < 2 && answer && answer->status == 503; ++tries) {
    co_await think(kSecond);
    S3Request next = again;
    answer = co_await gateway->call(std::move(next), "");
  }
  const SimMicros passed = time_.now() - call;
  time_.trace(answer ? static_cast<std::uint64_t>(answer->status) : 0);
  if (passed > kAnswerMax) {
    history_.violation(what + " was answered after " + std::to_string(passed / 1'000'000) + " s");
  }
  co_return answer;
}

Awaitable<void> SimClient::think(SimMicros most) {
  const auto pause = random_.between(1, std::max<SimMicros>(most, 1));
  auto start = [this, pause](Completion<int> done) { time_.after(pause, [done] { done(0); }); };
  auto woken = co_await await_completion<int>(std::move(start));
  (void)woken;
}

Awaitable<void> SimClient::make_first_bucket() {
  finished_ = false;
  for (int attempt = 0; attempt < 20; ++attempt) {
    auto asked = request("PUT", "");
    auto answer = co_await ask(std::move(asked));
    if (answer && answer->status == 200) break;
  }
  finished_ = true;
}

Awaitable<void> SimClient::fill() {
  finished_ = false;
  for (const auto& key : plan_.keys) co_await put(key);
  finished_ = true;
}

Awaitable<void> SimClient::run() {
  finished_ = false;
  const int total = std::accumulate(plan_.weights.begin(), plan_.weights.end(), 0);
  for (int i = 0; i < plan_.operations && time_.now() < kLastBegin; ++i) {
    co_await think(plan_.think_max);
    auto dice = random_.between(0, total - 1);
    std::size_t chosen = 0;
    while (dice >= plan_.weights[chosen]) dice -= plan_.weights[chosen++];
    std::string key = random_.pick(plan_.keys);
    co_await act(static_cast<Act>(chosen), std::move(key));
  }
  finished_ = true;
}

Awaitable<void> SimClient::act(Act act, std::string key) {
  switch (act) {
    case Act::put:
      return put(std::move(key));
    case Act::get:
      return get(std::move(key));
    case Act::range:
      return get_range(std::move(key));
    case Act::head:
      return head(std::move(key));
    case Act::remove:
      return remove(std::move(key));
    case Act::copy:
      return copy(std::move(key));
    case Act::copy_itself:
      return copy_itself(std::move(key));
    case Act::multipart:
      return multipart(std::move(key));
    case Act::list:
      return list();
    case Act::drop_bucket:
      return drop_bucket();
    case Act::make_bucket:
      return make_bucket();
    case Act::side_bucket:
      return side_bucket();
  }
  return list();
}

Awaitable<void> SimClient::settle_bucket() {
  quiet_ = true;
  finished_ = false;
  if (bucket_goes()) {
    co_await drop_bucket();  // ends a deletion that was cut off
    co_await make_bucket();
  }
  finished_ = true;
}

Awaitable<void> SimClient::settle_uploads() {
  quiet_ = true;
  finished_ = false;
  const auto uploads = uploads_;
  for (const auto& upload : uploads) co_await finish(upload);
  finished_ = true;
}

Awaitable<void> SimClient::read_all() {
  quiet_ = true;
  finished_ = false;
  for (const auto& key : history_.keys()) {
    co_await get(key);
    co_await head(key);
  }
  co_await list();
  finished_ = true;
}

Awaitable<void> SimClient::write_all() {
  quiet_ = true;
  finished_ = false;
  for (const auto& key : plan_.keys) {
    co_await put(key);
    co_await get(key);
  }
  finished_ = true;
}

bool SimClient::says_nothing(const std::string& what, const Result<Answer>& answer) {
  const bool nothing = !answer || answer->status >= 500;
  if (nothing && quiet_ && ++refusals_ > kRefusalsMax) {
    history_.violation(what + " fails after all faults are over: " +
                       (answer ? answer->body : answer.error().context));
  }
  return nothing;
}

bool SimClient::no_bucket(const std::string& key, SimMicros call, const Result<Answer>& answer) {
  if (!answer || !answer->is("NoSuchBucket")) return false;
  Operation read;
  read.value = kNoBucket;
  read.call = call;
  read.answer = time_.now();
  if (key.empty()) {
    history_.add_to_all(read);
  } else {
    history_.add(key, read);
  }
  return true;
}

void SimClient::unexpected(const std::string& what, const Answer& answer) {
  history_.violation(what + " answered " + std::to_string(answer.status) + " " + answer.body);
}

void SimClient::note_write(const std::string& key, Operation operation,
                           const Result<Answer>& answer, int expected, Value turn) {
  if (no_bucket(key, operation.call, answer)) return;
  const bool conditional = operation.condition != Operation::Condition::none;
  if (answer && answer->status == expected) {
    operation.outcome = Operation::Outcome::ok;
    operation.answer = time_.now();
    const Value number = operation.value;
    seen_[key] = Seen{number, number == 0 ? "" : history_.write(number).etag};
  } else if (answer && (answer->status == 412 || answer->status == 404) && conditional) {
    operation.outcome = Operation::Outcome::refused;
    operation.answer = time_.now();
  } else {
    operation.outcome = Operation::Outcome::unknown;
    if (!says_nothing("a write to " + key, answer)) unexpected("a write to " + key, *answer);
  }
  history_.add(key, operation, turn);
}

}  // namespace penstock::sim
