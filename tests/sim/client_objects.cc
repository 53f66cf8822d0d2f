// PUT, GET, ranges, HEAD, DELETE, LIST.
#include <algorithm>

#include "penstock/checksum.h"
#include "penstock/text_codec.h"
#include "tests/sim/sim_client.h"

namespace penstock::sim {

// Sizes that are inline, replicated and striped; so long that no two bodies are equal by chance.
std::uint64_t SimClient::pick_size(const std::string& key) {
  if (random_.chance(0.01) && !history_.has_empty_write(key)) return 0;
  const auto most = static_cast<std::int64_t>(plan_.size_max);
  switch (random_.between(0, 3)) {
    case 0:
      return static_cast<std::uint64_t>(random_.between(16, std::min<std::int64_t>(600, most)));
    case 1:
      return static_cast<std::uint64_t>(random_.between(16, std::min<std::int64_t>(20'000, most)));
    default:
      return static_cast<std::uint64_t>(random_.between(16, most));
  }
}

void SimClient::pick_condition(const std::string& key, Operation& operation, Pairs& headers) {
  if (!random_.chance(plan_.conditional)) return;
  const Seen seen = seen_[key];
  if (seen.value == 0 || random_.chance(0.3)) {
    operation.condition = Operation::Condition::must_be_absent;
    headers.emplace_back("if-none-match", "*");
  } else {
    operation.condition = Operation::Condition::must_be;
    operation.expected = seen.value;
    headers.emplace_back("if-match", seen.etag);
  }
}

Awaitable<void> SimClient::put(std::string key) {
  Operation operation;
  operation.kind = Operation::Kind::write;
  operation.value = history_.new_write(key, pick_size(key));
  Pairs headers;
  if (!quiet_) pick_condition(key, operation, headers);
  auto body = history_.body(operation.value);
  auto asked = request("PUT", key, {}, std::move(headers));
  operation.call = time_.now();
  auto answer = co_await ask(std::move(asked), std::move(body));
  note_write(key, operation, answer, 200);
  const bool stored = answer && answer->status == 200;
  if (stored && answer->header("ETag") != history_.write(operation.value).etag) {
    history_.violation("PUT " + key + " answers ETag " + answer->header("ETag"));
  }
}

Awaitable<void> SimClient::remove(std::string key) {
  Operation operation;
  operation.kind = Operation::Kind::write;
  operation.value = 0;
  operation.call = time_.now();
  auto asked = request("DELETE", key);
  auto answer = co_await ask(std::move(asked));
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
  if (answer.body != history_.body(number, offset, length)) {
    history_.violation("GET " + key + " of write " + std::to_string(number) +
                       " has wrong bytes from " + std::to_string(offset) + " on, got " +
                       std::to_string(answer.body.size()) + " of " +
                       std::to_string(history_.write(number).length));
  }
  return number;
}

// What the headers say of a whole object.
void SimClient::judge_head(const std::string& key, const Answer& answer, Value number) {
  if (number == 0) return;
  const auto& write = history_.write(number);
  if (answer.length != write.length) {
    history_.violation(key + " has a length of " + std::to_string(answer.length) + ", not " +
                       std::to_string(write.length));
  }
  const std::string checksum = answer.header("x-amz-checksum-crc32c");
  if (checksum.empty() || checksum.find('-') != std::string::npos) return;
  const auto body = history_.body(number);
  if (checksum != base64_encode(checksum_of(ChecksumAlgorithm::crc32c, as_bytes(body)))) {
    history_.violation(key + " shows a checksum that is not its own");
  }
}

Awaitable<void> SimClient::get(std::string key) {
  Operation operation;
  operation.call = time_.now();
  auto asked = request("GET", key, {}, Pairs{{"x-amz-checksum-mode", "ENABLED"}});
  auto answer = co_await ask(std::move(asked));
  operation.answer = time_.now();
  if (quiet_ && (!answer || answer->status >= 500)) {
    history_.unreadable(key, answer ? answer->body : answer.error().context);
    co_return;
  }
  if (says_nothing("GET " + key, answer) || no_bucket(key, operation.call, answer)) co_return;
  if (answer->status == 200) {
    operation.value = judge_body(key, *answer, 0, ~std::uint64_t{0} >> 1);
    judge_head(key, *answer, operation.value);
  } else if (answer->status != 404) {
    unexpected("GET " + key, *answer);
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
  const auto last = std::to_string(offset + length - 1);
  Pairs headers;
  headers.emplace_back("range", "bytes=" + std::to_string(offset) + "-" + last);
  auto asked = request("GET", key, {}, std::move(headers));
  auto answer = co_await ask(std::move(asked));
  operation.answer = time_.now();
  if (says_nothing("a range of " + key, answer) || answer->status == 416) co_return;
  if (no_bucket(key, operation.call, answer)) co_return;
  if (answer->status == 206) {
    operation.value = judge_body(key, *answer, offset, length);
  } else if (answer->status != 404) {
    unexpected("a range of " + key, *answer);
    co_return;
  }
  history_.add(key, operation);
}

Awaitable<void> SimClient::head(std::string key) {
  Operation operation;
  operation.call = time_.now();
  auto asked = request("HEAD", key, {}, Pairs{{"x-amz-checksum-mode", "ENABLED"}});
  auto answer = co_await ask(std::move(asked));
  operation.answer = time_.now();
  if (says_nothing("HEAD " + key, answer) || no_bucket(key, operation.call, answer)) co_return;
  if (answer->status == 200) {
    operation.value = history_.by_etag(key, answer->header("ETag"));
    if (operation.value == 0) history_.violation("HEAD " + key + " shows what nobody wrote");
    judge_head(key, *answer, operation.value);
  } else if (answer->status != 404) {
    unexpected("HEAD " + key, *answer);
    co_return;
  }
  history_.add(key, operation);
}

Awaitable<void> SimClient::list() {
  History::Listing listing;
  listing.call = time_.now();
  listing.prefix = "key";
  std::string token, last;
  const auto page_keys = random_.chance(0.5) ? random_.between(1, 5) : 1000;
  for (int page = 0; page < 200; ++page) {
    Pairs query{{"list-type", "2"}, {"prefix", "key"}, {"max-keys", std::to_string(page_keys)}};
    if (!token.empty()) query.emplace_back("continuation-token", token);
    auto asked = request("GET", "", std::move(query));
    const SimMicros call = time_.now();
    auto answer = co_await ask(std::move(asked));
    if (says_nothing("LIST", answer) || no_bucket("", call, answer)) co_return;
    if (answer->status != 200) {
      unexpected("LIST", *answer);
      co_return;
    }
    for (auto at = answer->body.find("<Contents>"); at != std::string::npos;
         at = answer->body.find("<Contents>", at + 1)) {
      const auto entry = answer->body.substr(at, answer->body.find("</Contents>", at) - at);
      const auto name = xml_element(entry, "Key");
      const History::Listed listed{xml_etag(entry), std::stoull(xml_element(entry, "Size"))};
      if (name <= last || !listing.seen.emplace(name, listed).second)
        history_.violation("LIST is out of order at " + name);
      last = name;
    }
    token = xml_element(answer->body, "NextContinuationToken");
    if (xml_element(answer->body, "IsTruncated") != "true") break;
    if (token.empty()) {
      history_.violation("a truncated LIST without a token");
      co_return;
    }
  }
  listing.answer = time_.now();
  history_.add(std::move(listing));
}

}  // namespace penstock::sim
