// GETs that take their time beside overwrites and sweeps, when nothing else can cut them off.
#include "tests/sim/client_uploads.h"
#include "tests/sim/graces.h"
#include "tests/sim/sim_client.h"

namespace penstock::sim {
namespace {

constexpr int kSlowReads = 3;
constexpr SimMicros kLeaseIsOver = graces::kLease.count() + kSecond;
constexpr SimMicros kPauseMax = graces::kReaderPinEvery.count();

}  // namespace

Task<> SimClient::put_in_parts(std::string key, std::vector<std::string> parts) {
  auto create = request("POST", key, Pairs{{"uploads", ""}});
  CO_TRY(created, co_await ask(std::move(create)));
  const std::string id = xml_element(created.body, "UploadId");
  std::string named;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    named += named_part(static_cast<std::uint16_t>(i + 1), hex_md5(parts[i]));
    auto send = request("PUT", key, Pairs{{"partNumber", std::to_string(i + 1)}, {"uploadId", id}});
    CO_TRY(sent, co_await ask(std::move(send), std::move(parts[i])));
    if (sent.status != 200) co_return fail(Errc::unavailable, sent.body);
  }
  auto complete = request("POST", key, Pairs{{"uploadId", id}});
  CO_TRY(done, co_await ask(std::move(complete), complete_body(named)));
  if (done.status != 200) co_return fail(Errc::unavailable, done.body);
  co_return Result<>{};
}

Awaitable<void> SimClient::overwrite(std::string key) {
  auto put = request("PUT", std::move(key));
  const auto done = co_await ask(std::move(put), "other");
  (void)done;
}

// An object whose leases have ended, overwritten when the first of its parts was read: the reader
// takes the others with pauses shorter than those between its pins, and must get them all.
Awaitable<void> SimClient::read_overwritten(std::string key) {
  std::vector<std::string> parts;
  std::string all;
  for (const char letter : {'a', 'b', 'c', 'd', 'e'}) {
    parts.emplace_back(static_cast<std::size_t>(random_.between(5'000, 40'000)), letter);
    all += parts.back();
  }
  const auto stored = co_await put_in_parts(key, std::move(parts));
  if (!stored) co_return;
  co_await think(kLeaseIsOver + random_.between(0, 8 * kSecond));
  bool overwritten = false;
  BodyPause pause = [&]() -> Awaitable<void> {
    if (!std::exchange(overwritten, true)) return overwrite(key);
    return think(kPauseMax);
  };
  auto get = request("GET", key);
  const auto gateway = pick_();
  const auto answer = co_await gateway->call(std::move(get), "", std::move(pause));
  if (answer && answer->status >= 500) co_return;  // it has not begun
  if (!answer && !overwritten) co_return;
  if (!answer) {
    history_.violation("a slow GET is cut off while its object is overwritten: " +
                       answer.error().context);
  } else if (answer->body != all) {
    history_.violation("a slow GET shows other bytes than its object's");
  }
}

Awaitable<void> SimClient::read_slowly() {
  finished_ = false;
  const std::string key = "slowly";
  for (int i = 0; i < kSlowReads; ++i) co_await read_overwritten(key);
  for (int tries = 0; tries < 5; ++tries) {
    auto remove = request("DELETE", key);
    const auto removed = co_await ask(std::move(remove));
    if (removed && removed->status == 204) break;
  }
  finished_ = true;
}

}  // namespace penstock::sim
