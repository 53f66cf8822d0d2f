#include "tests/crash/verifier.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "tests/crash/client.h"

namespace penstock::crash {
namespace {
constexpr sim::SimMicros kStepLimit = 300'000'000;
constexpr std::size_t kViolationsMax = 8;

std::string said(const Result<sim::SimGateway::Answer>& answer) {
  if (!answer) return answer.error().context;
  return std::to_string(answer->status) + " " + answer->body;
}
bool is(const Result<sim::SimGateway::Answer>& answer, int status) {
  return answer && answer->status == status;
}
// Or the body ended early.
bool is_unavailable(const Result<sim::SimGateway::Answer>& answer) {
  return !answer || answer->status == 500 || answer->status == 503;
}
}  // namespace

Verifier::Verifier(Ledger ledger, std::shared_ptr<const sim::SimCluster> cluster,
                   std::uint64_t seed, sim::SimMicros now)
    : random_(seed),
      ledger_(std::move(ledger)),
      process_(time_, random_.bits(), std::move(cluster)) {
  const sim::SimMicros later = now + random_.between(0, 20'000'000);
  time_.at(later, [] {});
  time_.run_until([&] { return time_.now() >= later; }, later);
}

std::vector<std::string> Verifier::run(const OpenDisk& open_disk,
                                       const std::set<std::size_t>& left_out) {
  if (start(open_disk)) {
    auto away = left_out;
    if (suspect_) away.erase(*suspect_);
    if (suspect_ && !suspect_is_open() && away.size() > 1) away.erase(away.begin());
    process_.serve(away);
    await(read_all(suspect_is_open()), "reading");
    process_.serve();
    if (suspect_) await(read_all(false), "reading what was unavailable");
    await(list_all(), "listing");
    await(check_uploads(), "looking at the uploads");
    await(write_again(), "writing");
    await(read_again(), "reading again");
  }
  process_.close();
  if (violations_.size() > kViolationsMax) {
    const auto more = violations_.size() - kViolationsMax;
    violations_.resize(kViolationsMax);
    violation("... and " + std::to_string(more) + " more");
  }
  return std::move(violations_);
}

bool Verifier::start(const OpenDisk& open_disk) {
  constexpr std::size_t kVolumes = 6;
  bool all = true;
  for (std::size_t i = 0; i < kVolumes; ++i) {
    auto disk = open_disk(i);
    const auto opened = disk ? process_.open(i, std::move(*disk)) : Result<>(disk.error());
    if (opened || suspect_ == i) continue;
    violation("v" + std::to_string(i) + " does not start: " + opened.error().context);
    all = false;
  }
  return all;
}

void Verifier::await(Awaitable<void> work, const char* what) {
  bool done = false;
  boost::asio::co_spawn(time_.io(), std::move(work), [&done](std::exception_ptr) { done = true; });
  if (!time_.run_until([&] { return done; }, time_.now() + kStepLimit)) {
    violation(std::string(what) + " hangs");
  }
}

Awaitable<void> Verifier::read_all(bool may_be_unavailable) {
  for (const auto& [name, entry] : ledger_.entries()) {
    const Name asked = name;
    if (seen_.contains(asked)) continue;
    if (asked.key.empty()) {
      co_await look_at_bucket(asked, may_be_unavailable);
      continue;
    }
    auto request = ask("GET", asked.bucket, asked.key);
    auto answer = co_await process_.call(std::move(request), "");
    if (may_be_unavailable && is_unavailable(answer)) continue;
    std::string why;
    const auto value = value_shown(ledger_, asked, answer, why);
    if (value) {
      seen_[asked] = *value;
    } else {
      violation(why);
    }
  }
}

Awaitable<void> Verifier::look_at_bucket(Name bucket, bool may_be_unavailable) {
  auto request = ask("HEAD", bucket.bucket, "");
  auto answer = co_await process_.call(std::move(request), "");
  if (may_be_unavailable && is_unavailable(answer)) co_return;
  const auto allowed = ledger_.allowed(bucket);
  if (is(answer, 503) && !ledger_.entry(bucket).certain()) {
    // A removal that was cut off leaves a bucket that waits for whoever removes it again.
    auto removal = ask("DELETE", bucket.bucket, "");
    answer = co_await process_.call(std::move(removal), "");
    if (is(answer, 204)) answer->status = 404;
  }
  if (!is(answer, 200) && !is(answer, 404)) {
    violation("HEAD of bucket " + bucket.bucket + ": " + said(answer));
    co_return;
  }
  const auto value = answer->status == 200 ? Ledger::kBucket : Ledger::kAbsent;
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
    violation("bucket " + bucket.bucket + (value == Ledger::kBucket ? " is there" : " is gone"));
  }
  seen_[bucket] = value;
}

bool Verifier::exists(const Name& bucket) const {
  const auto found = seen_.find(bucket);
  return found != seen_.end() && found->second == Ledger::kBucket;
}

Awaitable<void> Verifier::read_again() {
  const auto seen = seen_;
  for (const auto& [name, value] : seen) {
    const Name asked = name;
    if (!asked.key.empty()) co_await expect(asked, value);
  }
}

// What was cut off may be finished at any time, as its request was never answered: a sweep goes on
// with a Complete, and whoever settles the register with an accept that reached a few volumes; but
// not once the name was written anew.
std::vector<Ledger::Value> Verifier::pending(const Name& name) const {
  return written_.contains(name) ? std::vector<Ledger::Value>{} : ledger_.entry(name).unknown;
}

Awaitable<void> Verifier::expect(Name name, Ledger::Value value) {
  Ledger only;
  const auto copy = [&](Ledger::Value known) {
    return known == Ledger::kAbsent ? known : only.add(ledger_.content(known));
  };
  const auto wanted = copy(value);
  only.begin(name, wanted);
  only.end(name, wanted, Ledger::Outcome::applied);
  for (const auto later : pending(name)) only.begin(name, copy(later));
  auto request = ask("GET", name.bucket, name.key);
  auto answer = co_await process_.call(std::move(request), "");
  std::string why;
  if (!value_shown(only, name, answer, why)) violation("later: " + why);
}

Awaitable<void> Verifier::list_all() {
  auto request = ask("GET", "", "");
  auto answer = co_await process_.call(std::move(request), "");
  const bool listed = is(answer, 200);
  if (!listed) violation("ListBuckets: " + said(answer));
  for (const auto& [name, entry] : ledger_.entries()) {
    const Name bucket = name;
    if (!bucket.key.empty()) continue;
    const bool told =
        listed && answer->body.find("<Name>" + bucket.bucket + "</Name>") != std::string::npos;
    const auto value = told ? Ledger::kBucket : Ledger::kAbsent;
    const auto later = pending(bucket);
    if (std::find(later.begin(), later.end(), value) != later.end()) seen_[bucket] = value;
    if (listed && told != exists(bucket)) {
      violation("ListBuckets and HEAD differ on " + bucket.bucket);
    }
    if (exists(bucket)) co_await list_bucket(bucket.bucket);
  }
}

Awaitable<void> Verifier::list_bucket(std::string bucket) {
  std::map<std::string, ListedObject> listed;
  std::string token;
  for (int page = 0; page < 50; ++page) {
    Pairs query{{"list-type", "2"}, {"max-keys", std::to_string(random_.between(3, 12))}};
    if (!token.empty()) query.emplace_back("continuation-token", token);
    auto request = ask("GET", bucket, "", std::move(query));
    auto answer = co_await process_.call(std::move(request), "");
    if (!is(answer, 200)) {
      violation("LIST " + bucket + ": " + said(answer));
      co_return;
    }
    listed.merge(parse_list(answer->body));
    token = xml_element(answer->body, "NextContinuationToken");
    if (xml_element(answer->body, "IsTruncated") != "true") break;
  }
  for (auto& [name, value] : seen_) {
    if (name.bucket != bucket || name.key.empty()) continue;
    const auto found = listed.find(name.key);
    for (const auto later : pending(name)) {
      const bool shown =
          later == Ledger::kAbsent
              ? found == listed.end()
              : found != listed.end() && ledger_.content(later).etag == found->second.etag;
      if (shown) value = later;
    }
    const bool there = value != Ledger::kAbsent;
    if (there != (found != listed.end())) {
      violation("LIST " + bucket + (there ? " misses " : " shows absent ") + name.key);
    } else if (there) {
      const Content& content = ledger_.content(value);
      if (found->second.etag != content.etag || found->second.size != content.bytes.size()) {
        violation("LIST and GET differ on " + to_string(name));
      }
    }
    listed.erase(name.key);
  }
  for (const auto& [key, object] : listed) violation("LIST " + bucket + " shows unknown " + key);
}

Awaitable<void> Verifier::check_uploads() {
  const auto uploads = ledger_.uploads();
  for (const Upload& upload : uploads) {
    const Upload copy = upload;
    co_await check_upload(copy);
  }
}

// An upload that was ended is gone; an open one has its part and can be completed. Of one that had
// a call under way, any end is right that the object's allowed values cover.
Awaitable<void> Verifier::check_upload(Upload upload) {
  using State = Upload::State;
  if (upload.state == State::busy) co_return;
  Pairs query{{"uploadId", upload.id}};
  auto request = ask("GET", upload.object.bucket, upload.object.key, std::move(query));
  auto answer = co_await process_.call(std::move(request), "");
  const std::string what = "upload " + upload.id + " of " + to_string(upload.object);
  if (upload.state != State::open) {
    if (!is(answer, 404)) violation(what + " is still there: " + said(answer));
    co_return;
  }
  if (!is(answer, 200)) {
    violation(what + " is lost: " + said(answer));
    co_return;
  }
  const bool has_part = answer->body.find("<PartNumber>1</PartNumber>") != std::string::npos;
  if (has_part != !upload.part_etag.empty()) violation(what + ": ListParts: " + said(answer));
  if (!upload.part_etag.empty() && random_.chance(0.7)) co_await complete(upload);
}

Awaitable<void> Verifier::complete(Upload upload) {
  const auto value = ledger_.add({upload.bytes, one_part_etag(upload.bytes)});
  Pairs query{{"uploadId", upload.id}};
  auto request = ask("POST", upload.object.bucket, upload.object.key, std::move(query));
  std::string xml = completion_xml(upload.part_etag);
  auto answer = co_await process_.call(std::move(request), std::move(xml));
  if (is(answer, 200)) {
    seen_[upload.object] = value;
    written_.insert(upload.object);
  } else {
    violation("upload of " + to_string(upload.object) + " cannot be completed: " + said(answer));
  }
}

Awaitable<void> Verifier::write_again() {
  const std::string bucket = Client::kBucket;
  if (!exists({bucket, ""})) co_return;
  const Name small{bucket, "new-small"};
  const Name large{bucket, "new-large"};
  co_await write(small, 300);
  co_await write(large, static_cast<std::size_t>(random_.between(5'000, 200'000)));
  if (seen_.empty()) co_return;
  auto some = seen_.begin();
  std::advance(some, random_.bits() % seen_.size());
  const Name old = some->first;
  if (old.key.empty() || !exists({old.bucket, ""})) co_return;
  if (random_.chance(0.3)) {
    co_await remove(old);
  } else {
    co_await write(old, static_cast<std::size_t>(random_.between(0, 20'000)));
  }
}

Awaitable<void> Verifier::write(Name name, std::size_t size) {
  const auto number = static_cast<std::uint32_t>(random_.bits());
  Content content;
  content.bytes = sim::body_of(number, 0, size);
  content.etag = quoted_md5(content.bytes);
  std::string body = content.bytes;
  const auto value = ledger_.add(std::move(content));
  auto request = ask("PUT", name.bucket, name.key);
  auto answer = co_await process_.call(std::move(request), std::move(body));
  if (is(answer, 200)) {
    seen_[name] = value;
    written_.insert(name);
  } else {
    violation("PUT " + to_string(name) + " after the start: " + said(answer));
  }
}

Awaitable<void> Verifier::remove(Name name) {
  auto request = ask("DELETE", name.bucket, name.key);
  auto answer = co_await process_.call(std::move(request), "");
  if (is(answer, 204)) {
    seen_[name] = Ledger::kAbsent;
    written_.insert(name);
  } else {
    violation("DELETE " + to_string(name) + " after the start: " + said(answer));
  }
}

}  // namespace penstock::crash
