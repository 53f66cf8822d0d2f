#include "gateway/operations/damage_log.h"

#include <doctest/doctest.h>

#include "penstock/log.h"
#include "tests/fake/fake_clock.h"

namespace penstock {
namespace {

std::string& log_lines() {
  static std::string lines;
  return lines;
}

std::size_t count_of(std::string_view text) {
  std::size_t count = 0;
  for (auto at = log_lines().find(text); at != std::string::npos; ++count) {
    at = log_lines().find(text, at + 1);
  }
  return count;
}

BlobRef blob_on(VolumeId volume) {
  BlobRef blob;
  blob.locations.resize(2);
  blob.locations[1].volume = volume;
  return blob;
}

TEST_CASE("a storm of damaged fragments gets a line a second, and each volume its first one") {
  log_lines().clear();
  set_log_sink([](LogLevel, std::string_view line) { log_lines() += line; });
  FakeClock clock;
  const DamageLog log(clock);
  const Error why = fail(Errc::corrupt, "wrong checksum");
  for (int i = 0; i < 1000; ++i) log.of_request("R1")(blob_on(VolumeId{3}), 1, why);
  CHECK(count_of("fragment_damaged") <= 2);
  log.of_request("R2")(blob_on(VolumeId{4}), 1, why);
  CHECK(count_of("request_id=R2") == 1);
  CHECK(count_of("left_out=998") == 1);
  clock.advance(std::chrono::seconds(1));
  log.of_request("R3")(blob_on(VolumeId{3}), 1, why);
  CHECK(count_of("request_id=R3") == 1);
  log.of_request("R4")(blob_on(VolumeId{}), 1, why);  // it was left out when it was written
  CHECK(count_of("request_id=R4") == 0);
  set_log_sink(nullptr);
}

}  // namespace
}  // namespace penstock
