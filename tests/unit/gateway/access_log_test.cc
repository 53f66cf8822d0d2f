#include "gateway/access_log.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "gateway/auth/refused_logins.h"
#include "penstock/limits.h"
#include "penstock/log.h"
#include "tests/fake/fake_clock.h"
#include "tests/unit/gateway/auth/signing.h"

namespace penstock {
namespace {

std::string json_string(std::string_view bytes) {
  std::string out;
  append_json_string(out, bytes);
  return out;
}

TEST_CASE("a JSON string holds any bytes and says valid UTF-8 as it is") {
  CHECK(json_string("plain") == "\"plain\"");
  CHECK(json_string("a\"b\\c\n\x01\x7f") == "\"a\\\"b\\\\c\\u000a\\u0001\\u007f\"");
  const std::string text = "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80";
  CHECK(json_string(text) == "\"" + text + "\"");
  CHECK(json_string("\xff") == "\"\\ufffd\"");
  for (const std::string_view broken : {"\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                        "\xe2\x82", "\x80", "\xf5\x80\x80\x80"}) {
    CHECK(json_string(broken).find("\\ufffd") != std::string::npos);
  }
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t size = 0; size < 6; ++size) {
      const auto parsed = nlohmann::json::parse(json_string(all.substr(i, size)), nullptr, false);
      CHECK(parsed.is_string());
    }
  }
}

TEST_CASE("a line has what is known, and bounds what clients say of themselves") {
  AccessEntry entry;
  entry.time = WallTime(std::chrono::milliseconds(1'700'000'000'123));
  entry.operation = "GetObject";
  entry.key = "k\"\n";
  entry.status = 206;
  entry.bytes_out = 10;
  entry.took = std::chrono::microseconds(1234);
  const std::string agent(100'000, '\x01');
  entry.user_agent = agent;
  const std::string line = access_line(entry);
  CHECK(line.size() < 6 * limits::kAccessLogFieldMax + 1000);
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  const auto json = nlohmann::json::parse(line);
  CHECK(json["time"] == "2023-11-14T22:13:20.123Z");
  CHECK(json["key"] == "k\"\n");
  CHECK(json["status"] == 206);
  CHECK(json["bytes_out"] == 10);
  CHECK(json["ms"] == 1.234);
  CHECK(json["account"] == "");
  CHECK_FALSE(json.contains("error"));
  CHECK_FALSE(json.contains("range"));
  CHECK_FALSE(json.contains("cut_off"));
}

struct LogFolder {
  LogFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "access-XXXXXX").string();
    directory = ::mkdtemp(name.data());
  }
  ~LogFolder() { std::filesystem::remove_all(directory); }
  static std::vector<std::string> lines_of(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  std::string directory;
};

TEST_CASE("lines of many threads never mix, and all are there after the end") {
  const LogFolder folder;
  const std::string path = folder.directory + "/log";
  {
    auto log = AccessLog::open(path);
    REQUIRE(log);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log, t] {
        const std::string key = "key-" + std::to_string(t);
        AccessEntry entry;
        entry.key = key;
        for (int i = 0; i < 1000; ++i) (*log)->write(entry);
      });
    }
    for (auto& thread : threads) thread.join();
    (*log)->stop();
    CHECK((*log)->counts().written == 4000);
    CHECK((*log)->counts().dropped == 0);
  }
  const auto lines = LogFolder::lines_of(path);
  CHECK(lines.size() == 4000);
  for (const auto& line : lines) CHECK(nlohmann::json::accept(line));
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0037) == 0);
}

TEST_CASE("a pipe without a reader takes nothing, drops what does not fit, and ends in time") {
  const LogFolder folder;
  const std::string path = folder.directory + "/pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  auto log = AccessLog::open(path);
  REQUIRE(log);
  const std::string key(1024, 'k');
  AccessEntry entry;
  entry.key = key;
  const std::size_t count = 2 * limits::kAccessLogBytesMax / key.size();
  for (std::size_t i = 0; i < count; ++i) (*log)->write(entry);
  CHECK((*log)->counts().dropped > 0);
  CHECK((*log)->counts().dropped < count);
  CHECK((*log)->counts().written == 0);
  (*log)->stop();
}

TEST_CASE("a log that cannot be opened is refused") {
  const LogFolder folder;
  CHECK_FALSE(AccessLog::open(folder.directory));
  CHECK_FALSE(AccessLog::open(folder.directory + "/no/such"));
}

TEST_CASE("what a full disk did not take is counted in the next file, all of it") {
  const LogFolder folder;
  const std::string path = folder.directory + "/log";
  std::filesystem::create_symlink("/dev/full", path);
  auto log = AccessLog::open(path);
  REQUIRE(log);
  constexpr std::uint64_t kLines = 5;
  for (std::uint64_t dropped = 1; dropped <= kLines; ++dropped) {
    (*log)->write(AccessEntry{});
    while ((*log)->counts().dropped < dropped) std::this_thread::yield();
  }
  std::filesystem::remove(path);
  (*log)->reopen();
  (*log)->stop();
  std::uint64_t told = 0;
  for (const auto& line : LogFolder::lines_of(path)) {
    told += nlohmann::json::parse(line).value("dropped", std::uint64_t{0});
  }
  CHECK(told == kLines);
}

std::vector<std::string> g_told;
void keep_line(LogLevel, std::string_view line) { g_told.emplace_back(line); }

TEST_CASE("refused logins are told, bounded, and what is left out is counted") {
  g_told.clear();
  set_log_sink(keep_line);
  testing::SetClock clock(WallTime(std::chrono::seconds(1'700'000'000)));
  RefusedLogins logins(clock);
  S3Request request;
  request.method = "GET";
  request.path = "/" + std::string(10'000, 'p');
  request.headers = {{"authorization", "AWS4-HMAC-SHA256 Credential=WHO\x1b" +
                                           std::string(10'000, 'A') + "/20260101/x/s3/a, Sign"}};
  for (int i = 0; i < 100; ++i) logins.tell(request, "1.2.3.4", s3_error(S3Code::AccessDenied));
  CHECK(g_told.size() == RefusedLogins::kLinesPerSecond);
  CHECK(logins.count() == 100);
  for (const auto& line : g_told) {
    CHECK(line.size() < 1500);
    CHECK(line.find('\x1b') == std::string::npos);
  }
  S3Request anonymous;
  logins.tell(anonymous, "1.2.3.4", s3_error(S3Code::AccessDenied));
  CHECK(logins.count() == 100);
  set_log_sink(nullptr);
}

TEST_CASE("what was left out of refused logins is told once") {
  g_told.clear();
  set_log_sink(keep_line);
  FakeClock clock;
  RefusedLogins logins(clock);
  S3Request request;
  request.headers = {{"authorization", "AWS AK:signature"}};
  const auto refuse = [&](int times) {
    g_told.clear();
    for (int i = 0; i < times; ++i) logins.tell(request, "", s3_error(S3Code::AccessDenied));
  };
  refuse(RefusedLogins::kLinesPerSecond + 7);
  CHECK(g_told.size() == RefusedLogins::kLinesPerSecond);
  clock.advance(std::chrono::seconds(1));
  refuse(2);
  REQUIRE(g_told.size() == 2);
  CHECK(g_told[0].find("left_out=7") != std::string::npos);
  CHECK(g_told[1].find("left_out=0") != std::string::npos);
  refuse(RefusedLogins::kLinesPerSecond);
  g_told.clear();
  logins.tell_left_out();  // this second may have more
  CHECK(g_told.empty());
  clock.advance(std::chrono::seconds(1));
  logins.tell_left_out();
  logins.tell_left_out();
  REQUIRE(g_told.size() == 1);
  CHECK(g_told[0].find("left_out=2") != std::string::npos);
  set_log_sink(nullptr);
}

TEST_CASE("the key that a request claims is found in all its forms") {
  const auto claimed = [](testing::Pairs headers, testing::Pairs query) {
    S3Request request;
    request.headers = std::move(headers);
    request.query = std::move(query);
    return std::string(claimed_access_key(request));
  };
  CHECK(claimed({{"authorization", "AWS4-HMAC-SHA256 Credential=AK/2026/r/s3/aws4_request, S"}},
                {}) == "AK");
  CHECK(claimed({{"authorization", "AWS AK:signature"}}, {}) == "AK");
  CHECK(claimed({}, {{"X-Amz-Credential", "AK/2026"}}) == "AK");
  CHECK(claimed({}, {{"AWSAccessKeyId", "AK"}}) == "AK");
  CHECK(claimed({{"authorization", "Bearer x"}}, {}).empty());
  CHECK(claimed({}, {}).empty());
}

}  // namespace
}  // namespace penstock
