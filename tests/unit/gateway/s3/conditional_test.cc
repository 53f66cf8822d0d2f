#include "gateway/s3/conditional.h"

#include <doctest/doctest.h>

#include "tests/unit/gateway/s3/request_builder.h"

namespace penstock {
namespace {
// Sun, 06 Nov 1994 08:49:37 GMT and a fraction, which no header can say.
const WallTime kModified{std::chrono::seconds{784111777} + std::chrono::milliseconds{900}};
constexpr const char* kSame = "Sun, 06 Nov 1994 08:49:37 GMT";
constexpr const char* kBefore = "Sun, 06 Nov 1994 08:49:36 GMT";
constexpr const char* kAfter = "Sun, 06 Nov 1994 08:49:38 GMT";
constexpr auto kServe = ReadVerdict::serve;
constexpr auto kNotModified = ReadVerdict::not_modified;
constexpr auto kFailed = ReadVerdict::failed;
}  // namespace

TEST_CASE("a list of ETags names one with or without quotes") {
  for (const EtagMatch match : {EtagMatch::strong, EtagMatch::weak}) {
    CHECK(etag_listed("\"abc\"", "abc", match));
    CHECK(etag_listed("abc", "abc", match));
    CHECK(etag_listed(" \"x\" ,\t\"abc\" ", "abc", match));
    CHECK(etag_listed(" * ", "abc", match));
    for (const char* none : {"\"abcd\"", "", " ", "\"\"", ",", "\"\", \"\"", "\"*\"", "*, \"x\"",
                             "\"x\", *", "W/\"\"", "\"abc", "abc\"", "\" abc\""}) {
      CAPTURE(none);
      CHECK_FALSE(etag_listed(none, "abc", match));
    }
  }
  CHECK(etag_listed("\"x\", W/\"abc\"", "abc", EtagMatch::weak));
  CHECK_FALSE(etag_listed("\"x\", W/\"abc\"", "abc", EtagMatch::strong));
}

TEST_CASE("conditions of a read are weighed in RFC 9110's order") {
  struct Row {
    Pairs headers;
    ReadVerdict verdict;
    const char* header;
  };
  const Row rows[] = {
      {{}, kServe, ""},
      {{{"if-match", "\"abc\""}}, kServe, ""},
      {{{"if-match", "\"x\""}}, kFailed, "If-Match"},
      {{{"if-none-match", "\"abc\""}}, kNotModified, "If-None-Match"},
      {{{"if-none-match", "ABCORZ"}}, kServe, ""},
      {{{"if-modified-since", kBefore}}, kServe, ""},
      {{{"if-modified-since", kSame}}, kNotModified, "If-Modified-Since"},
      {{{"if-modified-since", kAfter}}, kNotModified, "If-Modified-Since"},
      {{{"if-unmodified-since", kBefore}}, kFailed, "If-Unmodified-Since"},
      {{{"if-unmodified-since", kSame}}, kServe, ""},
      {{{"if-unmodified-since", "not a date"}}, kServe, ""},
      // If-Match decides where If-Unmodified-Since says otherwise, and so with the other two
      {{{"if-match", "abc"}, {"if-unmodified-since", kBefore}}, kServe, ""},
      {{{"if-none-match", "x"}, {"if-modified-since", kAfter}}, kServe, ""},
      {{{"if-none-match", "abc"}, {"if-modified-since", kBefore}}, kNotModified, "If-None-Match"},
      {{{"if-match", "x"}, {"if-none-match", "abc"}}, kFailed, "If-Match"},
      // what is there and empty names nothing
      {{{"if-match", ""}}, kFailed, "If-Match"},
      {{{"if-match", "\"\""}}, kFailed, "If-Match"},
      {{{"if-none-match", "\"\""}}, kServe, ""},
      {{{"if-match", "W/\"abc\""}}, kFailed, "If-Match"},
      {{{"if-none-match", "W/\"abc\""}}, kNotModified, "If-None-Match"},
  };
  for (const Row& row : rows) {
    const auto decision = check_read(with_headers(row.headers), {}, "abc", kModified);
    CHECK(static_cast<int>(decision.verdict) == static_cast<int>(row.verdict));
    CHECK(decision.header == row.header);
  }
}

TEST_CASE("conditions of a copy have a prefix of their own") {
  const auto request = with_headers({{"x-amz-copy-source-if-match", "x"}, {"if-match", "abc"}});
  const auto decision = check_read(request, "x-amz-copy-source-", "abc", kModified);
  CHECK(static_cast<int>(decision.verdict) == static_cast<int>(kFailed));
}

TEST_CASE("conditions of a write are one ETag each") {
  const auto both =
      write_condition(with_headers({{"if-match", "\"abc\""}, {"if-none-match", "*"}}));
  REQUIRE(both);
  CHECK(both->if_match == "abc");
  CHECK(both->if_none_match == "*");
  CHECK(write_condition(with_headers({}))->empty());
  for (const Pairs& headers :
       {Pairs{{"if-none-match", "\"a\",\"b\""}}, Pairs{{"if-match", "\"a\",\"b\""}},
        Pairs{{"if-unmodified-since", kSame}}, Pairs{{"if-modified-since", kSame}}}) {
    CHECK(code_of(write_condition(with_headers(headers))) == S3Code::NotImplemented);
  }
}

TEST_CASE("a condition of a write that is there is never dropped") {
  for (const char* header : {"if-match", "if-none-match"}) {
    for (const char* empty : {"", " ", "\"\"", " \"\" "}) {
      CAPTURE(header);
      CAPTURE(empty);
      const auto condition = write_condition(with_headers({{header, empty}}));
      CHECK(code_of(condition) == S3Code::PreconditionFailed);
    }
    CHECK(code_of(write_condition(with_headers({{header, ","}}))) == S3Code::NotImplemented);
    CHECK(code_of(write_condition(with_headers({{header, "*, \"x\""}}))) == S3Code::NotImplemented);
  }
  // An ETag that nobody can have is not one that differs from all.
  const std::string long_etag(65, 'a');
  CHECK(code_of(write_condition(with_headers({{"if-match", "\"*\""}}))) ==
        S3Code::PreconditionFailed);
  CHECK(code_of(write_condition(with_headers({{"if-match", long_etag}}))) ==
        S3Code::PreconditionFailed);
  CHECK(code_of(write_condition(with_headers({{"if-none-match", long_etag}}))) ==
        S3Code::NotImplemented);
  CHECK(write_condition(with_headers({{"if-match", "W/\"abc\""}}))->if_match == "W/\"abc\"");
  CHECK(write_condition(with_headers({{"if-none-match", "W/\"abc\""}}))->if_none_match == "abc");
  CHECK(write_condition(with_headers({{"if-none-match", " * "}}))->if_none_match == "*");
  for (const char* star : {"\"*\"", "W/\"*\"", "W/*"}) {
    CHECK(code_of(write_condition(with_headers({{"if-none-match", star}}))) ==
          S3Code::NotImplemented);
  }
  for (const char* date : {"", "not a date"}) {
    CHECK(code_of(write_condition(with_headers({{"if-modified-since", date}}))) ==
          S3Code::NotImplemented);
  }
}

TEST_CASE("a copy heeds the conditions on its source or is refused") {
  const std::string prefix = "x-amz-copy-source-";
  for (const char* name : {"if-match", "if-none-match"}) {
    for (const char* empty : {"", "\"\"", ", \"\"", "W/\"\"", "\"\", W/\"\""}) {
      const auto checked = check_copy_conditions(with_headers({{prefix + name, empty}}));
      CHECK(code_of(checked) == S3Code::PreconditionFailed);
    }
    CHECK(check_copy_conditions(with_headers({{prefix + name, "\"a\""}})));
    CHECK(check_copy_conditions(with_headers({{prefix + name, "\"\", W/\"a\""}})));
  }
  for (const char* name : {"if-modified-since", "if-unmodified-since"}) {
    CHECK(check_copy_conditions(with_headers({{prefix + name, kSame}})));
    for (const char* bad : {"", "yesterday"}) {
      CHECK(code_of(check_copy_conditions(with_headers({{prefix + name, bad}}))) ==
            S3Code::InvalidArgument);
    }
  }
}

TEST_CASE("a failed write names its condition") {
  Condition condition;
  condition.if_none_match = "*";
  const S3Error error = write_failure(fail(Errc::precondition, ""), condition);
  CHECK(error.code == S3Code::PreconditionFailed);
  REQUIRE(error.details.size() == 1);
  CHECK(error.details[0].second == "If-None-Match");
  CHECK(write_failure(fail(Errc::not_found, ""), condition).code == S3Code::NoSuchKey);
  CHECK(write_failure(fail(Errc::unknown_outcome, ""), condition).code == S3Code::SlowDown);
}

TEST_CASE("If-Range lets a range through only for the same object") {
  CHECK(range_still_valid(with_headers({}), "abc", kModified));
  CHECK(range_still_valid(with_headers({{"if-range", "\"abc\""}}), "abc", kModified));
  CHECK(range_still_valid(with_headers({{"if-range", kSame}}), "abc", kModified));
  CHECK_FALSE(range_still_valid(with_headers({{"if-range", "\"x\""}}), "abc", kModified));
  CHECK_FALSE(range_still_valid(with_headers({{"if-range", kAfter}}), "abc", kModified));
}

}  // namespace penstock
