#include <doctest/doctest.h>

#include "gateway/auth/authenticator.h"
#include "tests/unit/gateway/auth/auth_world.h"

namespace penstock {
namespace {

using namespace testing;
using namespace std::chrono_literals;

TEST_CASE("a presigned request is let in, with its parameters in any order") {
  World world;
  S3Request request = unsigned_get();
  presign(request);
  CHECK(world.code(request) == "ok");
  std::reverse(request.query.begin(), request.query.end());
  const auto result = world.ask(request);
  REQUIRE(result);
  CHECK(result->payload.mode == PayloadMode::plain);
}

TEST_CASE("a presigned request may repeat the payload hash that its signature covers") {
  const std::pair<std::string, std::string> rows[] = {
      {"UNSIGNED-PAYLOAD", "ok"},
      {std::string(kEmptySha256), "AccessDenied"},
      {"STREAMING-UNSIGNED-PAYLOAD-TRAILER", "AccessDenied"},
  };
  for (const auto& [hash, code] : rows) {
    World world;
    S3Request request = unsigned_get();
    presign(request);
    set_header(request, "x-amz-content-sha256", hash);
    CHECK(world.code(request) == code);
  }
  World world;
  S3Request request = plain_get();
  SignWith with;
  with.signed_headers = "host;x-amz-content-sha256";
  presign(request, with, kEmptySha256);
  const auto result = world.ask(request);
  REQUIRE(result);
  CHECK(result->payload.mode == PayloadMode::hashed);
}

TEST_CASE("presigned parameters are checked one by one") {
  struct Row {
    std::string name, value, code;
  };
  const std::string malformed = "AuthorizationQueryParametersError";
  const Row rows[] = {
      {"X-Amz-Expires", "604801", malformed},
      {"X-Amz-Expires", "99999999999999999999", malformed},
      {"X-Amz-Expires", "-1", "AccessDenied"},
      {"X-Amz-Expires", "-99999999999999999999", malformed},
      {"X-Amz-Expires", "ten", malformed},
      {"X-Amz-Expires", "10s", malformed},
      {"X-Amz-Expires", "", malformed},
      {"X-Amz-Expires", "0", "AccessDenied"},
      {"X-Amz-Algorithm", "AWS4-HMAC-SHA1", malformed},
      {"X-Amz-Algorithm", "", malformed},
      {"X-Amz-Credential", "AKIA", malformed},
      {"X-Amz-Date", "yesterday", malformed},
      {"X-Amz-Date", "20130524T000001Z", "SignatureDoesNotMatch"},
      {"X-Amz-SignedHeaders", "", malformed},
      {"X-Amz-SignedHeaders", "range", "SignatureDoesNotMatch"},
      {"X-Amz-Signature", "", malformed},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.value);
    World world;
    S3Request request = unsigned_get();
    presign(request);
    for (auto& [name, value] : request.query) {
      if (name == row.name) value = row.value;
    }
    CHECK(world.code(request) == row.code);
    S3Request without = unsigned_get();
    presign(without);
    std::erase_if(without.query, [&](const auto& pair) { return pair.first == row.name; });
    CHECK(world.code(without) == malformed);
    S3Request twice = unsigned_get();
    presign(twice);
    twice.query.emplace_back(row.name, *twice.query_value(row.name));
    CHECK(world.code(twice) == malformed);
  }
}

TEST_CASE("a presigned request is valid from its date to its expiry") {
  S3Request request = unsigned_get();
  presign(request);  // for 600 s
  const std::tuple<Duration, std::string, std::string> rows[] = {
      {-15min, "ok", ""},
      {-15min - 1s, "AccessDenied", "Request is not yet valid"},
      {599s, "ok", ""},
      {600s, "AccessDenied", "Request has expired"},
      {24h, "AccessDenied", "Request has expired"},
  };
  for (const auto& [offset, code, message] : rows) {
    World world;
    world.clock.set(world.clock.wall() + offset);
    const auto result = world.ask(request);
    CHECK((result ? "ok" : std::string(code_name(result.error().code))) == code);
    if (!result) CHECK(result.error().message == message);
  }
}

TEST_CASE("a session token is none of ours, wherever it stands") {
  for (const bool in_query : {false, true}) {
    World world;
    S3Request request = in_query ? unsigned_get() : plain_get();
    if (in_query) request.query.emplace_back("X-Amz-Security-Token", "token");
    if (!in_query) request.headers.emplace_back("x-amz-security-token", "token");
    if (in_query) presign(request);
    if (!in_query) sign_header(request);
    CHECK(world.code(request) == "InvalidToken");
  }
}

}  // namespace
}  // namespace penstock
