// CopyObject to another key, and onto itself.
#include "tests/sim/sim_client.h"

namespace penstock::sim {
namespace {
std::string source_header(const std::string& key) {
  return std::string(SimClient::kBucket) + "/" + key;
}
}  // namespace

// The source's version is named, so that the copy's bytes are known whatever is answered.
Awaitable<void> SimClient::copy(std::string key) {
  const Seen source = seen_[key];
  if (source.value == 0) co_return;
  std::string to = random_.pick(plan_.keys);
  if (to == key) to = "keycopy";
  auto all = history_.range_of(source.value, 0, history_.write(source.value).length);
  const std::string etag = quoted(hex_md5(history_.body(source.value)));
  Operation operation;
  operation.kind = Operation::Kind::write;
  operation.value = history_.copied_write(to, std::move(all), etag);
  const Value turn = history_.new_turn();
  Pairs headers;
  headers.emplace_back("x-amz-copy-source", source_header(key));
  headers.emplace_back("x-amz-copy-source-if-match", source.etag);
  if (random_.chance(0.5)) {
    headers.emplace_back("x-amz-metadata-directive", "REPLACE");
    headers.emplace_back(kTurn, std::to_string(turn));
  } else {
    history_.lose_turns(to);
  }
  auto asked = request("PUT", to, {}, std::move(headers));
  operation.call = time_.now();
  auto answer = co_await ask(std::move(asked));
  if (answer && (answer->status == 412 || answer->is("NoSuchKey"))) {
    co_return;  // of the source
  }
  note_write(to, operation, answer, 200, turn);
  if (!answer || answer->status != 200) co_return;
  if (xml_etag(answer->body) != etag) history_.violation("a copy of " + key + " has other bytes");
  Operation read;  // the source had that version at some moment
  read.value = source.value;
  read.call = operation.call;
  read.answer = time_.now();
  history_.add(key, read);
}

// New headers for the same bytes: nothing of them may be removed.
Awaitable<void> SimClient::copy_itself(std::string key) {
  const Seen source = seen_[key];
  if (source.value == 0) co_return;
  Operation operation;
  operation.kind = Operation::Kind::write;
  operation.value = source.value;
  operation.condition = Operation::Condition::must_be;
  operation.expected = source.value;
  Pairs headers;
  headers.emplace_back("x-amz-copy-source", source_header(key));
  headers.emplace_back("x-amz-copy-source-if-match", source.etag);
  headers.emplace_back("x-amz-metadata-directive", "REPLACE");
  const Value turn = history_.new_turn();
  headers.emplace_back(kTurn, std::to_string(turn));
  auto asked = request("PUT", key, {}, std::move(headers));
  operation.call = time_.now();
  auto answer = co_await ask(std::move(asked));
  note_write(key, operation, answer, 200, turn);
}

}  // namespace penstock::sim
