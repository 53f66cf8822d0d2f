#include "penstock/log.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace penstock;

namespace {
std::vector<std::string> g_lines;
void keep(LogLevel, std::string_view line) { g_lines.emplace_back(line); }
struct KeptLog {
  KeptLog() {
    g_lines.clear();
    set_log_sink(keep);
  }
  ~KeptLog() {
    set_log_sink(nullptr);
    set_log_level(LogLevel::info);
  }
};
}  // namespace

TEST_CASE("an event is one line of key=value pairs") {
  KeptLog kept;
  log_event(LogLevel::warn, "volume_closed", {{"volume", "3"}, {"reason", "write failed"}});
  REQUIRE(g_lines.size() == 1);
  CHECK(g_lines[0] == "level=warn event=volume_closed volume=3 reason=\"write failed\"");
}

TEST_CASE("a value cannot forge a line, a field or a terminal command") {
  KeptLog kept;
  log_event(
      LogLevel::error, "e",
      {{"a", "x\nlevel=info"}, {"b", "q\"\\"}, {"c", "\x1b[2J\xff"}, {"d", ""}, {"e", "k=v"}});
  REQUIRE(g_lines.size() == 1);
  CHECK(g_lines[0] ==
        "level=error event=e a=\"x\\nlevel=info\" b=\"q\\\"\\\\\" c=\"\\x1b[2J\\xff\" d=\"\" "
        "e=\"k=v\"");
}

TEST_CASE("events below the level are dropped and long values are cut") {
  KeptLog kept;
  log_event(LogLevel::debug, "unseen");
  CHECK(g_lines.empty());
  CHECK_FALSE(log_enabled(LogLevel::debug));
  set_log_level(LogLevel::debug);
  log_event(LogLevel::debug, "seen", {{"v", std::string(100'000, 'a')}});
  REQUIRE(g_lines.size() == 1);
  CHECK(g_lines[0].size() < 10'000);
}
