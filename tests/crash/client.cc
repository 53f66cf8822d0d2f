#include "tests/crash/client.h"

namespace penstock::crash {
namespace {

constexpr std::int64_t kKeys = 6;
constexpr sim::SimMicros kThinkMax = 20'000;
using Outcome = Ledger::Outcome;

}  // namespace

Client::Client(LoadState& load, std::uint64_t seed, std::size_t index)
    : load_(load),
      random_(seed),
      prefix_("c" + std::to_string(index) + "/"),
      own_bucket_{"extra-" + std::to_string(index), ""} {}

Awaitable<void> Client::run(int operations) {
  finished_ = false;
  int left = operations;
  bool told = false;
  while (left > 0) {
    if (load_.faulty && !told) {
      told = true;
      left = std::min(left, load_.operations_left_then);
    }
    auto& clock = load_.process->gateway().clock();
    co_await clock.sleep_until(clock.boot() + Duration(random_.between(1, kThinkMax)));
    co_await step();
    --left;
  }
  finished_ = true;
}

Awaitable<void> Client::step() {
  Name name = some_key();
  const auto dice = random_.between(0, 99);
  if (dice < 40) {
    co_await put(name);
  } else if (dice < 50) {
    co_await remove(name);
  } else if (dice < 58) {
    co_await copy(name, some_key());
  } else if (dice < 74) {
    co_await multipart(name);
  } else if (dice < 84) {
    co_await get(name);
  } else if (dice < 88) {
    co_await list();
  } else {
    co_await use_bucket();
  }
}

Name Client::some_key() {
  return {kBucket, prefix_ + "key" + std::to_string(random_.between(1, kKeys))};
}

// All size classes: empty, inline, replicated, striped, and fragments that are files of their own.
std::string Client::some_bytes() {
  constexpr std::int64_t kLimits[][2] = {{0, 0}, {1, 512}, {513, 4096}, {4097, 150'000}};
  const auto dice = random_.between(0, 99);
  const int kind = dice < 4 ? 0 : dice < 30 ? 1 : dice < 55 ? 2 : 3;
  auto size = random_.between(kLimits[kind][0], kLimits[kind][1]);
  if (dice >= 95) size = random_.between(530'000, 700'000);
  const auto number = static_cast<std::uint32_t>(random_.bits());
  return sim::body_of(number, 0, static_cast<std::uint64_t>(size));
}

void Client::violation(const Ticket& ticket, const std::string& text) {
  load_.violations.push_back(ticket.what + ": " + text);
}

Outcome Client::judge(const Ticket& ticket, const Result<Answer>& answer, int applied,
                      bool must_be_refused) {
  const int status = answer ? answer->status : 0;
  if (status == 0 || status == 500 || status == 503) {
    if (!excused(ticket)) violation(ticket, answer ? answer->body : answer.error().context);
    return Outcome::unknown;
  }
  if (status != (must_be_refused ? 412 : applied)) {
    violation(ticket, std::to_string(status) + " " + answer->body);
  }
  return status == applied ? Outcome::applied : Outcome::refused;
}

Awaitable<void> Client::put(Name name) {
  Content content;
  content.bytes = some_bytes();
  content.etag = quoted_md5(content.bytes);
  std::string body = content.bytes;
  const auto entry = load_.ledger.entry(name);
  const bool there = entry.acknowledged != Ledger::kAbsent;
  Pairs headers;
  bool must_be_refused = false;
  if (entry.certain() && random_.chance(0.2)) {
    must_be_refused = there;
    headers.emplace_back("if-none-match", "*");
  } else if (entry.certain() && there && random_.chance(0.25)) {
    must_be_refused = random_.chance(0.4);
    const std::string held = load_.ledger.content(entry.acknowledged).etag;
    headers.emplace_back("if-match", must_be_refused ? quoted_md5("another") : held);
  }
  const auto ticket = begin("PUT " + to_string(name));
  const auto value = load_.ledger.add(std::move(content));
  load_.ledger.begin(name, value);
  auto request = ask("PUT", name.bucket, name.key, {}, std::move(headers));
  auto answer = co_await load_.process->call(std::move(request), std::move(body));
  load_.ledger.end(name, value, judge(ticket, answer, 200, must_be_refused));
}

Awaitable<void> Client::remove(Name name) {
  const auto ticket = begin("DELETE " + to_string(name));
  load_.ledger.begin(name, Ledger::kAbsent);
  auto request = ask("DELETE", name.bucket, name.key);
  auto answer = co_await load_.process->call(std::move(request), "");
  load_.ledger.end(name, Ledger::kAbsent, judge(ticket, answer, 204));
}

Awaitable<void> Client::copy(Name from, Name to) {
  const auto source = load_.ledger.entry(from);
  if (from == to || !source.certain() || source.acknowledged == Ledger::kAbsent) co_return;
  Content content;
  content.bytes = load_.ledger.content(source.acknowledged).bytes;
  content.etag = quoted_md5(content.bytes);
  Pairs headers{{"x-amz-copy-source", from.bucket + "/" + from.key}};
  const auto ticket = begin("copy to " + to_string(to));
  const auto value = load_.ledger.add(std::move(content));
  load_.ledger.begin(to, value);
  auto request = ask("PUT", to.bucket, to.key, {}, std::move(headers));
  auto answer = co_await load_.process->call(std::move(request), "");
  load_.ledger.end(to, value, judge(ticket, answer, 200));
}

Awaitable<void> Client::get(Name name) {
  const auto ticket = begin("GET");
  auto request = ask("GET", name.bucket, name.key);
  auto answer = co_await load_.process->call(std::move(request), "");
  const int status = answer ? answer->status : 0;
  if (excused(ticket) && (status == 0 || status == 500 || status == 503)) co_return;
  std::string why;
  if (!value_shown(load_.ledger, name, answer, why)) violation(ticket, why);
}

Awaitable<void> Client::list() {
  Pairs query{{"list-type", "2"}, {"prefix", prefix_}};
  const auto ticket = begin("LIST " + prefix_);
  auto request = ask("GET", kBucket, "", std::move(query));
  auto answer = co_await load_.process->call(std::move(request), "");
  const int status = answer ? answer->status : 0;
  if (excused(ticket) && status != 200) co_return;
  if (status != 200) {
    violation(ticket, std::to_string(status));
    co_return;
  }
  const auto listed = parse_list(answer->body);
  for (std::int64_t i = 1; i <= kKeys; ++i) {
    const Name name{kBucket, prefix_ + "key" + std::to_string(i)};
    const auto entry = load_.ledger.entry(name);
    if (!entry.certain()) continue;
    const auto found = listed.find(name.key);
    const bool there = entry.acknowledged != Ledger::kAbsent;
    if (there != (found != listed.end())) {
      violation(ticket, (there ? "misses " : "still shows ") + name.key);
    } else if (there && found->second.etag != load_.ledger.content(entry.acknowledged).etag) {
      violation(ticket, "shows another ETag of " + name.key);
    }
  }
}

// A bucket of its own: made, filled with one object, emptied, removed, and again.
Awaitable<void> Client::use_bucket() {
  const Name object{own_bucket_.bucket, "only"};
  const auto bucket = load_.ledger.entry(own_bucket_);
  if (!bucket.certain() || !load_.ledger.entry(object).certain()) co_return;
  if (bucket.acknowledged == Ledger::kAbsent) {
    co_await make_bucket(own_bucket_);
  } else if (load_.ledger.entry(object).acknowledged != Ledger::kAbsent) {
    co_await remove(object);
  } else if (random_.chance(0.5)) {
    co_await put(object);
  } else {
    co_await remove_bucket(own_bucket_);
  }
}

Awaitable<void> Client::make_bucket(Name bucket) {
  const auto ticket = begin("CreateBucket " + bucket.bucket);
  load_.ledger.begin(bucket, Ledger::kBucket);
  auto request = ask("PUT", bucket.bucket, "");
  auto answer = co_await load_.process->call(std::move(request), "");
  load_.ledger.end(bucket, Ledger::kBucket, judge(ticket, answer, 200));
}

Awaitable<void> Client::remove_bucket(Name bucket) {
  const auto ticket = begin("DeleteBucket " + bucket.bucket);
  load_.ledger.begin(bucket, Ledger::kAbsent);
  auto request = ask("DELETE", bucket.bucket, "");
  auto answer = co_await load_.process->call(std::move(request), "");
  load_.ledger.end(bucket, Ledger::kAbsent, judge(ticket, answer, 204));
}

// One step of an upload of this client: an open one is filled, filled again, completed or aborted.
Awaitable<void> Client::multipart(Name name) {
  for (std::size_t i = 0; i < load_.ledger.uploads().size(); ++i) {
    const Upload& upload = load_.ledger.uploads()[i];
    if (upload.state != Upload::State::open || !upload.object.key.starts_with(prefix_)) continue;
    const auto dice = random_.between(0, 9);
    if (upload.part_etag.empty() || dice < 1) {
      co_await upload_part(i);
    } else if (dice < 8) {
      co_await complete(i);
    } else {
      co_await abort(i);
    }
    co_return;
  }
  const auto ticket = begin("CreateMultipartUpload " + to_string(name));
  Pairs query{{"uploads", ""}};
  auto request = ask("POST", name.bucket, name.key, std::move(query));
  auto answer = co_await load_.process->call(std::move(request), "");
  if (judge(ticket, answer, 200) != Outcome::applied) co_return;
  Upload made;
  made.object = std::move(name);
  made.id = xml_element(answer->body, "UploadId");
  load_.ledger.uploads().push_back(std::move(made));
}

Awaitable<void> Client::upload_part(std::size_t upload) {
  const Name name = load_.ledger.uploads()[upload].object;
  std::string bytes = some_bytes();
  std::string body = bytes;
  Pairs query{{"partNumber", "1"}, {"uploadId", load_.ledger.uploads()[upload].id}};
  const auto ticket = begin("UploadPart " + to_string(name));
  load_.ledger.uploads()[upload].state = Upload::State::busy;
  auto request = ask("PUT", name.bucket, name.key, std::move(query));
  auto answer = co_await load_.process->call(std::move(request), std::move(body));
  if (judge(ticket, answer, 200) != Outcome::applied) co_return;
  Upload& now = load_.ledger.uploads()[upload];
  now.part_etag = quoted_md5(bytes);
  now.bytes = std::move(bytes);
  now.state = Upload::State::open;
}

Awaitable<void> Client::complete(std::size_t upload) {
  const Upload before = load_.ledger.uploads()[upload];
  const auto ticket = begin("CompleteMultipartUpload " + to_string(before.object));
  const auto value = load_.ledger.add({before.bytes, one_part_etag(before.bytes)});
  load_.ledger.begin(before.object, value);
  load_.ledger.uploads()[upload].state = Upload::State::busy;
  Pairs query{{"uploadId", before.id}};
  auto request = ask("POST", before.object.bucket, before.object.key, std::move(query));
  std::string xml = completion_xml(before.part_etag);
  auto answer = co_await load_.process->call(std::move(request), std::move(xml));
  const auto outcome = judge(ticket, answer, 200);
  load_.ledger.end(before.object, value, outcome);
  if (outcome == Outcome::applied) {
    load_.ledger.uploads()[upload].state = Upload::State::completed;
  }
}

Awaitable<void> Client::abort(std::size_t upload) {
  const Upload before = load_.ledger.uploads()[upload];
  const auto ticket = begin("AbortMultipartUpload " + to_string(before.object));
  load_.ledger.uploads()[upload].state = Upload::State::busy;
  Pairs query{{"uploadId", before.id}};
  auto request = ask("DELETE", before.object.bucket, before.object.key, std::move(query));
  auto answer = co_await load_.process->call(std::move(request), "");
  if (judge(ticket, answer, 204) == Outcome::applied) {
    load_.ledger.uploads()[upload].state = Upload::State::aborted;
  }
}

}  // namespace penstock::crash
