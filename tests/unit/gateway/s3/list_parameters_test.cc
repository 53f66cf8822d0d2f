#include "gateway/s3/list_parameters.h"

#include <doctest/doctest.h>

#include "tests/unit/gateway/s3/request_builder.h"

namespace penstock {

TEST_CASE("the size of a page is bounded and bad numbers are refused") {
  struct Row {
    const char* value;
    std::size_t size;
  };
  for (const Row& row : {Row{"", 1000}, Row{"0", 0}, Row{"1", 1}, Row{"1000", 1000},
                         Row{"1001", 1000}, Row{"2147483647", 1000}}) {
    CAPTURE(row.value);
    const auto size = page_size(with_query({{"max-keys", row.value}}), "max-keys", 1000);
    REQUIRE(size);
    CHECK(*size == row.size);
  }
  CHECK(*page_size(with_query({}), "max-keys", 1000) == 1000);
  for (const char* value : {"blah", "-1", "1x", " 1", "2147483648", "99999999999999999999"}) {
    CAPTURE(value);
    CHECK(code_of(page_size(with_query({{"max-keys", value}}), "max-keys", 1000)) ==
          S3Code::InvalidArgument);
  }
}

TEST_CASE("a marker that is a common prefix leads past everything under it") {
  struct Row {
    const char *marker, *prefix, *delimiter;
    bool is_prefix;
  };
  for (const Row& row :
       {Row{"boo/", "", "/", true}, Row{"boo/b", "", "/", false}, Row{"asdf", "", "/", false},
        Row{"boo/", "boo/", "/", false}, Row{"boo/baz/", "boo/", "/", true},
        Row{"boo/baz/", "", "/", false}, Row{"boo/", "", "", false}, Row{"boo/", "x", "/", false},
        Row{"a--", "", "--", true}, Row{"", "", "/", false}}) {
    CAPTURE(row.marker);
    const ListStart start = start_after(row.marker, row.prefix, row.delimiter);
    CHECK(start.after == row.marker);
    CHECK(start.is_prefix == row.is_prefix);
  }
}

TEST_CASE("a continuation token is letters and digits and survives the way back") {
  for (const ListStart& start :
       {ListStart{"a/b", false}, ListStart{"a/", true},
        ListStart{std::string("\0<&\xFF", 4), false}, ListStart{std::string(1024, 'k'), false}}) {
    const std::string token = encode_token(start);
    CHECK(token.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") == std::string::npos);
    CHECK(decode_token(token) == start);
  }
  for (const char* token : {"", "x", "q61", "k6", "kzz", "K61"}) {
    CAPTURE(token);
    CHECK_FALSE(decode_token(token).has_value());
  }
}

TEST_CASE("keys are shown plain or percent-encoded") {
  const auto shown = [](Pairs query) {
    const auto encoding = KeyEncoding::of(with_query(std::move(query)));
    XmlWriter xml;
    encoding->write(xml, "Key", "a b/+<");
    encoding->write_type(xml);
    const std::string text = xml.take();
    return text.substr(text.find('\n') + 1);
  };
  CHECK(shown({}) == "<Key>a b/+&lt;</Key>");
  CHECK(shown({{"encoding-type", "url"}}) ==
        "<Key>a%20b/%2B%3C</Key><EncodingType>url</EncodingType>");
  CHECK(code_of(KeyEncoding::of(with_query({{"encoding-type", "base64"}}))) ==
        S3Code::InvalidArgument);
}

}  // namespace penstock
