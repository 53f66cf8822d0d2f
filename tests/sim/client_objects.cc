// PUT, GET, ranges, HEAD, DELETE, DeleteObjects.
#include <algorithm>

#include "gateway/s3/http_date.h"
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

void SimClient::must_be(const Seen& seen, Operation& operation, Pairs& headers) {
  operation.condition = Operation::Condition::must_be;
  operation.expected = seen.value;
  headers.emplace_back("if-match", seen.etag);
}

void SimClient::pick_condition(const std::string& key, Operation& operation, Pairs& headers) {
  if (!random_.chance(plan_.conditional)) return;
  const Seen seen = seen_[key];
  if (seen.value == 0 || random_.chance(0.3)) {
    operation.condition = Operation::Condition::must_be_absent;
    headers.emplace_back("if-none-match", "*");
  } else {
    must_be(seen, operation, headers);
  }
}

Awaitable<void> SimClient::put(std::string key) {
  Operation operation;
  operation.kind = Operation::Kind::write;
  operation.value = history_.new_write(key, pick_size(key));
  const Value turn = history_.new_turn();
  Pairs headers{{kTurn, std::to_string(turn)}};
  if (!quiet_) pick_condition(key, operation, headers);
  auto body = history_.body(operation.value);
  auto asked = request("PUT", key, {}, std::move(headers));
  operation.call = time_.now();
  auto answer = co_await ask(std::move(asked), std::move(body));
  note_write(key, operation, answer, 200, turn);
  const bool stored = answer && answer->status == 200;
  if (stored && answer->header("ETag") != history_.write(operation.value).etag) {
    history_.violation("PUT " + key + " answers ETag " + answer->header("ETag"));
  }
}

// One key by DELETE or by DeleteObjects, whose answer is told as that of a DELETE.
Task<SimGateway::Answer> SimClient::ask_remove(const std::string& key, const Pairs& headers) {
  if (random_.chance(0.7)) {
    auto asked = request("DELETE", key, {}, headers);
    co_return co_await ask(std::move(asked));
  }
  std::string body = "<Delete><Object><Key>" + key + "</Key>";
  for (const auto& [name, etag] : headers) body += "<ETag>" + etag + "</ETag>";
  body += "</Object></Delete>";
  auto asked = request("POST", "", Pairs{{"delete", ""}}, Pairs{{"x-amz-checksum-crc32c", ""}});
  auto answer = co_await ask(std::move(asked), body);
  if (!answer || answer->status != 200) co_return answer;
  const std::string code = xml_element(answer->body, "Code");
  if (code.empty()) {
    answer->status = xml_element(answer->body, "Key") == key ? 204 : 0;
  } else {
    answer->body = code + ": " + xml_element(answer->body, "Message");
    answer->status = code == "PreconditionFailed" ? 412 : code.starts_with("NoSuch") ? 404 : 503;
  }
  co_return answer;
}

Awaitable<void> SimClient::remove(std::string key) {
  Operation operation;
  operation.kind = Operation::Kind::write;
  operation.value = 0;
  Pairs headers;
  const Seen seen = seen_[key];
  if (seen.value != 0 && random_.chance(plan_.conditional / 4)) {
    must_be(seen, operation, headers);
  }
  operation.call = time_.now();
  auto answer = co_await ask_remove(key, headers);
  note_write(key, operation, answer, 204, 0);
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

Value SimClient::judge_range(const std::string& key, const Answer& answer) {
  const std::string range = answer.header("Content-Range");  // "bytes 3-7/12"
  const auto dash = range.find('-'), slash = range.find('/');
  if (!range.starts_with("bytes ") || dash == std::string::npos || slash == std::string::npos) {
    history_.violation("a range of " + key + " is told as " + range);
    return 0;
  }
  const auto first = std::stoull(range.substr(6, dash - 6));
  const auto last = std::stoull(range.substr(dash + 1, slash - dash - 1));
  const Value number = judge_body(key, answer, first, last - first + 1);
  if (number != 0 && std::stoull(range.substr(slash + 1)) != history_.write(number).length) {
    history_.violation("a range of " + key + " is told of another length: " + range);
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

void SimClient::note_read(const std::string& key, const Operation& operation,
                          const Answer& answer) {
  if (operation.value == 0) return history_.add(key, operation, 0);
  const std::string turn = answer.header(kTurn);
  if (turn.empty()) history_.violation(key + " shows none of the headers that it was sent");
  history_.add(key, operation, turn.empty() ? 0 : static_cast<Value>(std::stoul(turn)));
  const auto modified = parse_http_date(answer.header("Last-Modified"));
  if (!modified) return history_.violation(key + " shows no Last-Modified");
  const std::string second = iso_date(*modified).substr(0, kSecondLength);
  history_.add(key, History::Dated{operation.call, operation.answer, second});
}

Awaitable<void> SimClient::get(std::string key) {
  Operation operation;
  operation.call = time_.now();
  const Seen before = seen_[key];
  Pairs headers{{"x-amz-checksum-mode", "ENABLED"}};
  const bool unless_seen = before.value != 0 && !quiet_ && random_.chance(0.2);
  if (unless_seen) headers.emplace_back("if-none-match", before.etag);
  auto asked = request("GET", key, {}, std::move(headers));
  auto answer = co_await ask(std::move(asked));
  operation.answer = time_.now();
  if (quiet_ && (!answer || answer->status >= 500)) {
    history_.unreadable(key, answer ? answer->body : answer.error().context);
    co_return;
  }
  if (says_nothing("GET " + key, answer) || no_bucket(key, operation.call, answer)) co_return;
  if (answer->status == 304 && unless_seen) {
    operation.value = before.value;
    history_.add(key, operation);
    co_return;
  }
  if (answer->status == 200) {
    operation.value = judge_body(key, *answer, 0, ~std::uint64_t{0} >> 1);
    judge_head(key, *answer, operation.value);
    if (unless_seen && operation.value == before.value) {
      history_.violation("If-None-Match of " + key + " answers what it excludes");
    }
  } else if (answer->status != 404) {
    unexpected("GET " + key, *answer);
    co_return;
  }
  seen_[key] = Seen{operation.value, answer->header("ETag")};
  note_read(key, operation, *answer);
}

// From somewhere to somewhere, to the end, or so many last bytes; each of what was last seen there.
std::string SimClient::pick_range(const std::string& key) {
  const Seen seen = seen_[key];
  const std::uint64_t all = seen.value == 0 ? 100'000 : history_.write(seen.value).length + 10;
  const std::uint64_t first = random_.below(all);
  const std::uint64_t count = 1 + random_.below(random_.chance(0.3) ? 16 : all);
  if (random_.chance(0.2)) return "bytes=-" + std::to_string(count);
  if (random_.chance(0.2)) return "bytes=" + std::to_string(first) + "-";
  return "bytes=" + std::to_string(first) + "-" + std::to_string(first + count - 1);
}

Awaitable<void> SimClient::get_range(std::string key) {
  Operation operation;
  operation.call = time_.now();
  auto asked = request("GET", key, {}, Pairs{{"range", pick_range(key)}});
  auto answer = co_await ask(std::move(asked));
  operation.answer = time_.now();
  if (says_nothing("a range of " + key, answer) || answer->status == 416) co_return;
  if (no_bucket(key, operation.call, answer)) co_return;
  if (answer->status == 206) {
    operation.value = judge_range(key, *answer);
  } else if (answer->status != 404) {
    unexpected("a range of " + key, *answer);
    co_return;
  }
  note_read(key, operation, *answer);
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
  note_read(key, operation, *answer);
}

}  // namespace penstock::sim
