#include "gateway/s3/s3_xml.h"

#include <doctest/doctest.h>

#include <pugixml.hpp>

#include "gateway/s3/s3_xml_input.h"

namespace penstock {
namespace {
std::string escaped(std::string_view text) {
  std::string out;
  append_escaped(out, text);
  return out;
}
}  // namespace

TEST_CASE("elements nest under one root with S3's namespace") {
  XmlWriter xml;
  xml.open_root("R");
  xml.element("Name", "a&b");
  xml.element("Count", 18446744073709551615ull);
  xml.boolean("IsTruncated", false);
  xml.element("Prefix", "");
  xml.etag("abc");
  xml.close("R");
  CHECK(xml.take() ==
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<R xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>a&amp;b</Name>"
        "<Count>18446744073709551615</Count><IsTruncated>false</IsTruncated><Prefix></Prefix>"
        "<ETag>&quot;abc&quot;</ETag></R>");
}

TEST_CASE("what escapes take is known before") {
  for (const std::string text : {"plain", "<a>&\"'", "\x01\n\x7f", "\xC3\xA4", "\xFF\xC3"}) {
    CAPTURE(text);
    CHECK(escaped_bytes_max(text) >= escaped(text).size());
    CHECK(escaped_bytes_max(text) <= 6 * text.size());
  }
}

TEST_CASE("markup, quotes and control characters are escaped") {
  CHECK(escaped("<a>&\"'") == "&lt;a&gt;&amp;&quot;&#39;");
  CHECK(escaped("\x01\n\r\t\x7f") == "&#x1;&#xa;&#xd;&#x9;&#x7f;");
  CHECK(escaped(" plain ~") == " plain ~");
  CHECK(escaped("") == "");
}

TEST_CASE("UTF-8 passes and other bytes are replaced one by one") {
  const std::string good = "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  CHECK(escaped(good) == good);
  const std::string r = "\xEF\xBF\xBD";
  CHECK(escaped("\xFF") == r);
  CHECK(escaped("a\xC3") == "a" + r);
  CHECK(escaped("\xC0\xAF") == r + r);                  // overlong
  CHECK(escaped("\xED\xA0\x80") == r + r + r);          // a surrogate
  CHECK(escaped("\xF4\x90\x80\x80") == r + r + r + r);  // past the last code point
  CHECK(escaped("\xE2\x82z") == r + r + "z");
}

TEST_CASE("whatever is written, a parser reads the text back") {
  std::string printable;
  for (int c = 0x20; c < 0x7f; ++c) printable += static_cast<char>(c);
  printable += "\xC3\xA9\n\t";
  XmlWriter xml;
  xml.open_root("R");
  xml.element("Key", printable);
  xml.close("R");
  pugi::xml_document document;
  REQUIRE(document.load_string(xml.take().c_str()));
  CHECK(std::string(document.child("R").child_value("Key")) == printable);
}

TEST_CASE("what is no XML deletes nothing") {
  const auto in_delete = [](std::string inside) { return "<Delete>" + inside + "</Delete>"; };
  const auto object = [](std::string key) { return "<Object><Key>" + key + "</Key></Object>"; };
  const std::string bad[] = {
      in_delete(object("&bad;")),
      in_delete(object("&#xZZ;")),
      in_delete(object("v1&#xD800;")),
      in_delete(object("\x01")),
      in_delete(object("\xff")),
      "text" + in_delete(object("k")),
      in_delete(object("k")) + "trailing",
      in_delete("<Object><Key a=\"1\" a=\"2\">k</Key></Object>"),
      in_delete("<Object><Key>v1</Key><Key>v2</Key></Object>"),
      in_delete(object("k") + "<Quiet>maybe</Quiet>"),
  };
  for (const std::string& text : bad) {
    CAPTURE(text);
    CHECK_FALSE(parse_delete(text));
  }
  CHECK(parse_delete(in_delete(object("a &amp; b&#x0D;&#10;\xc3\xa4"))));
}

}  // namespace penstock
