// Multipart uploads: parts that are sent again, copied, left out; racing Completes and Aborts. All
// Completes of one upload are one write, which is applied at most once.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "penstock/limits.h"
#include "tests/sim/client_uploads.h"
#include "tests/sim/sim_client.h"

namespace penstock::sim {
namespace {
constexpr double kManyParts = 0.1;  // of the uploads
}  // namespace

Task<bool> SimClient::send_part(UploadPtr upload, std::uint16_t number, Value bytes) {
  auto body = history_.body(bytes);
  const int tries = random_.chance(0.2) ? 2 : 1;
  bool stored = false;
  for (int i = 0; i < tries; ++i) {
    Pairs query{{"partNumber", std::to_string(number)}, {"uploadId", upload->id}};
    auto asked = request("PUT", upload->key, std::move(query));
    auto answer = co_await ask(std::move(asked), body);
    if (answer && answer->status == 200) {
      stored = true;
    } else if (!says_nothing("UploadPart", answer) && !bucket_goes()) {
      unexpected("UploadPart to " + upload->key, *answer);
    }
  }
  co_return stored;
}

// A range of what the client last saw of some key.
Task<bool> SimClient::copy_part(UploadPtr upload) {
  const std::string from = random_.pick(plan_.keys);
  const Seen source = seen_[from];
  const auto length = source.value == 0 ? 0 : history_.write(source.value).length;
  if (length < 64) co_return false;
  const auto first = static_cast<std::uint64_t>(random_.below(length - 32));
  const std::uint64_t count = 16 + random_.below(length - first - 16);
  Pairs headers;
  headers.emplace_back("x-amz-copy-source", std::string(kBucket) + "/" + from);
  headers.emplace_back("x-amz-copy-source-if-match", source.etag);
  headers.emplace_back("x-amz-copy-source-range",
                       "bytes=" + std::to_string(first) + "-" + std::to_string(first + count - 1));
  Pairs query{{"partNumber", "1"}, {"uploadId", upload->id}};
  auto asked = request("PUT", upload->key, std::move(query), std::move(headers));
  auto answer = co_await ask(std::move(asked));
  if (!answer || answer->status != 200) {
    // Its part may still come and take the place of what is sent next.
    if (!answer || answer->status >= 500) upload->certain = false;
    co_return false;
  }
  const auto bytes = history_.body(source.value, first, count);
  if (xml_etag(answer->body) != quoted(hex_md5(bytes))) {
    history_.violation("UploadPartCopy of " + from + " has other bytes");
  }
  upload->take(history_.range_of(source.value, first, count));
  upload->name_part(1, bytes);
  co_return true;
}

// More parts than a record takes: a manifest names them.
Awaitable<void> SimClient::send_many_parts(UploadPtr upload) {
  constexpr std::int64_t kFewest = limits::kPartsInRecordMax + 1;
  const auto count = static_cast<std::uint16_t>(random_.between(kFewest, kFewest + 3));
  int failures = 0;
  for (std::uint16_t number = 1; number <= count; ++number) {
    const Value bytes =
        history_.new_write("nowhere", static_cast<std::uint64_t>(random_.between(16, 300)));
    auto sent = co_await send_part(upload, number, bytes);
    while ((!sent || !*sent) && ++failures < 3) sent = co_await send_part(upload, number, bytes);
    if (!sent || !*sent) {
      upload->etags.clear();
      co_return;
    }
    upload->take(history_.range_of(bytes, 0, history_.write(bytes).length));
    upload->name_part(number, history_.body(bytes));
  }
}

// Sends what Complete will name; no part is named if that fails.
Awaitable<void> SimClient::send_parts(UploadPtr upload) {
  if (random_.chance(kManyParts)) co_return co_await send_many_parts(upload);
  if (random_.chance(0.25)) {
    auto copied = co_await copy_part(upload);
    if (copied && *copied) co_return;
  }
  if (random_.chance(0.3)) {  // other bytes under the number that follows: they must not be seen
    const Value other = history_.new_write("nowhere", pick_size("nowhere"));
    auto sent = co_await send_part(upload, 1, other);
    if (sent && *sent) {
      upload->replaced = hex_md5(history_.body(other));
    } else {
      upload->certain = false;
    }
  }
  if (random_.chance(0.15)) {  // a part that is not named
    const Value other = history_.new_write("nowhere", 5'000);
    auto sent = co_await send_part(upload, 7, other);
    (void)sent;
  }
  const bool large = random_.chance(0.02);  // two parts: all but the last have 5 MiB at least
  for (std::uint16_t number = 1; number <= (large ? 2 : 1); ++number) {
    const bool first_of_two = large && number == 1;
    const Value bytes = history_.new_write(
        "nowhere", first_of_two ? limits::kPartBytesMin : pick_size("nowhere") + 16);
    auto sent = co_await send_part(upload, number, bytes);
    if (!sent || !*sent) {
      upload->etags.clear();
      co_return;
    }
    upload->take(history_.range_of(bytes, 0, history_.write(bytes).length));
    upload->name_part(number, history_.body(bytes));
  }
}

Awaitable<void> SimClient::complete(UploadPtr upload, SimMicros delay) {
  co_await think(delay);
  auto asked = request("POST", upload->key, Pairs{{"uploadId", upload->id}}, upload->headers);
  Operation operation = upload->operation;
  operation.call = time_.now();
  if (upload->first_call < 0) upload->first_call = operation.call;
  auto answer = co_await ask(std::move(asked), complete_body(upload->manifest));
  operation.answer = time_.now();
  --upload->running;
  if (answer && answer->status == 200) {
    upload->applied = std::min(upload->applied.value_or(operation.answer), operation.answer);
    const std::string etag = history_.write(operation.value).etag;
    if (xml_etag(answer->body) != etag) history_.violation("Complete answers another ETag");
    seen_[upload->key] = Seen{operation.value, etag};
  } else if (says_nothing("Complete of " + upload->key, answer)) {
    upload->unknown = true;
  } else if (answer->status == 412 || answer->is("NoSuchKey")) {
    operation.outcome = Operation::Outcome::refused;
    history_.add(upload->key, operation);
    if (operation.condition == Operation::Condition::none) unexpected("Complete", *answer);
  } else if (answer->is("InvalidPart")) {
    if (upload->certain) history_.violation("Complete of " + upload->key + " misses a part");
  } else if (!answer->is("NoSuchUpload") && !answer->is("NoSuchBucket")) {
    unexpected("Complete of " + upload->key, *answer);
  } else if (answer->is("NoSuchUpload") && !upload->aborted && upload->running == 0 &&
             upload->certain && !upload->unknown && !bucket_goes()) {
    history_.violation("the upload of " + upload->key + " is gone");
  }
}

Awaitable<void> SimClient::abort(UploadPtr upload, SimMicros delay) {
  co_await think(delay);
  auto asked = request("DELETE", upload->key, Pairs{{"uploadId", upload->id}});
  auto answer = co_await ask(std::move(asked));
  --upload->running;
  if (says_nothing("Abort", answer)) {
    upload->unknown = true;
  } else if (answer->status == 204) {
    upload->aborted = time_.now();
  } else if (answer->is("NoSuchUpload")) {
    // It is done, or was aborted before.
    if (!upload->aborted && !upload->unknown && !bucket_goes()) {
      upload->applied = std::min(upload->applied.value_or(time_.now()), time_.now());
    }
  } else if (!answer->is("NoSuchBucket")) {
    unexpected("Abort of " + upload->key, *answer);
  }
}

Awaitable<void> SimClient::multipart(std::string key) {
  const Value turn = history_.new_turn();
  auto begin = request("POST", key, Pairs{{"uploads", ""}}, Pairs{{kTurn, std::to_string(turn)}});
  auto created = co_await ask(std::move(begin));
  if (!created || created->status != 200) co_return;
  auto upload = std::make_shared<ClientUpload>();
  upload->turn = turn;
  upload->key = key;
  upload->id = xml_element(created->body, "UploadId");
  co_await send_parts(upload);
  if (upload->etags.empty()) {
    ++upload->running;
    co_await abort(upload, 1);
    co_return;
  }
  Operation& operation = upload->operation;
  operation.kind = Operation::Kind::write;
  const std::string etag =
      quoted(hex_md5(upload->digests) + "-" + std::to_string(upload->etags.size()));
  operation.value = history_.copied_write(key, upload->segments, etag);
  pick_condition(key, operation, upload->headers);
  uploads_.push_back(upload);
  co_await look_at_upload(upload);
  constexpr SimMicros kRace = 60'000;
  const auto start = [this](Awaitable<void> step) {
    boost::asio::co_spawn(time_.io(), std::move(step), boost::asio::detached);
  };
  const auto completes = random_.chance(0.5) ? 1 : random_.between(2, 3);
  const bool aborts = random_.chance(0.2);
  upload->running = static_cast<int>(completes) + (aborts ? 1 : 0);
  for (std::int64_t i = 0; i < completes; ++i) start(complete(upload, i == 0 ? 1 : kRace));
  if (aborts) start(abort(upload, kRace));
  while (upload->running > 0) co_await think(20'000);
  if (random_.chance(0.3)) {  // later again, as a client does that lost the answer
    co_await think(2'000'000);
    ++upload->running;
    co_await complete(upload, 1);
  }
  if (upload->applied || upload->aborted) {
    if (random_.chance(0.2)) co_await send_late_part(upload);
    if (random_.chance(0.2)) co_await look_for_upload(upload, false);
  }
}

// When all faults are over, whoever asks again is told what became of the upload.
Awaitable<void> SimClient::finish(UploadPtr upload) {
  if (!upload->unknown || upload->applied || upload->aborted) co_return;
  ++upload->running;
  co_await complete(upload, 1);
}

void SimClient::note_uploads() {
  for (const auto& upload : uploads_) {
    if (upload->applied && upload->aborted) {
      history_.violation("an upload of " + upload->key + " is both done and aborted");
    }
    if (upload->first_call < 0 || upload->aborted) continue;
    Operation operation = upload->operation;
    operation.call = upload->first_call;
    if (upload->applied) {
      operation.answer = *upload->applied;
    } else if (upload->unknown) {
      operation.outcome = Operation::Outcome::unknown;
    } else {
      continue;
    }
    history_.add(upload->key, operation, upload->turn);
  }
}

}  // namespace penstock::sim
