#include "gateway/s3/s3_xml_input.h"

#include <doctest/doctest.h>

#include "penstock/limits.h"
#include "tests/unit/gateway/s3/request_builder.h"

namespace penstock {
namespace {
std::string complete_of(const std::string& parts) {
  return "<CompleteMultipartUpload>" + parts + "</CompleteMultipartUpload>";
}
std::string delete_of(const std::string& objects) { return "<Delete>" + objects + "</Delete>"; }
}  // namespace

TEST_CASE("a list of parts is read as every client writes it") {
  const char* const documents[] = {
      // boto3: namespace, quoted ETag
      "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part>"
      "<ETag>\"0a1b\"</ETag><PartNumber>7</PartNumber></Part></CompleteMultipartUpload>",
      // CRT: pretty-printed, bare ETag, another order
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<CompleteMultipartUpload>\n  <Part>\n"
      "    <PartNumber>7</PartNumber>\n    <ETag>0a1b</ETag>\n  </Part>\n"
      "</CompleteMultipartUpload>\n",
      // Go: escaped quotes
      "<CompleteMultipartUpload><Part><PartNumber>7</PartNumber><ETag>&#34;0a1b&#34;</ETag>"
      "</Part></CompleteMultipartUpload>",
      "<CompleteMultipartUpload><Part><ETag>&quot;0a1b&quot;</ETag><PartNumber>7</PartNumber>"
      "</Part></CompleteMultipartUpload>",
      // a prefix, a comment, a byte order mark
      "\xEF\xBB\xBF<s:CompleteMultipartUpload xmlns:s=\"x\"><!-- hi --><s:Part>"
      "<s:ETag>0a1b</s:ETag><s:PartNumber>7</s:PartNumber></s:Part>"
      "</s:CompleteMultipartUpload>"};
  for (const char* document : documents) {
    CAPTURE(document);
    const auto parts = parse_complete(document);
    REQUIRE(parts);
    REQUIRE(parts->size() == 1);
    CHECK(parts->front().number == 7);
    CHECK(parts->front().etag == "0a1b");
  }
}

TEST_CASE("checksums of parts are decoded and held to their length") {
  const auto parts = parse_complete(complete_of(
      "<Part><PartNumber>1</PartNumber><ETag>x</ETag><ChecksumCRC32>AAAAAQ==</ChecksumCRC32>"
      "</Part>"));
  REQUIRE(parts);
  CHECK(parts->front().checksum.algorithm == ChecksumAlgorithm::crc32);
  CHECK(parts->front().checksum.raw == std::string("\0\0\0\1", 4));
  for (const char* value : {"AAAAAQ", "AAAA", "!!!!"}) {
    CAPTURE(value);
    CHECK(code_of(parse_complete(
              complete_of("<Part><PartNumber>1</PartNumber><ETag>x</ETag><ChecksumCRC32>" +
                          std::string(value) + "</ChecksumCRC32></Part>"))) == S3Code::InvalidPart);
  }
}

TEST_CASE("no checksum of a part is passed over") {
  const auto code = [](const std::string& checksums) {
    return code_of(parse_complete(
        complete_of("<Part><PartNumber>1</PartNumber><ETag>x</ETag>" + checksums + "</Part>")));
  };
  CHECK(code("<ChecksumCRC32>AAAAAQ==</ChecksumCRC32><ChecksumCRC32C>AAAAAQ==</ChecksumCRC32C>") ==
        S3Code::InvalidRequest);
  CHECK(code("<ChecksumXXHASH64>AAAAAAAAAAA=</ChecksumXXHASH64>") == S3Code::InvalidRequest);
  CHECK(code("<ETag>x</ETag>") == S3Code::MalformedXML);
  CHECK(code("<PartNumber>1</PartNumber>") == S3Code::MalformedXML);
}

TEST_CASE("a list of parts that makes no sense is refused") {
  for (const std::string& parts :
       {std::string(), std::string("<Part/>"), std::string("<Part><ETag>x</ETag></Part>"),
        std::string("<Part><PartNumber>1</PartNumber></Part>"),
        std::string("<Part><PartNumber>one</PartNumber><ETag>x</ETag></Part>"),
        std::string("<Part><PartNumber>-1</PartNumber><ETag>x</ETag></Part>"),
        std::string("<Part><PartNumber></PartNumber><ETag>x</ETag></Part>")}) {
    CAPTURE(parts);
    CHECK(code_of(parse_complete(complete_of(parts))) == S3Code::MalformedXML);
  }
  for (const char* number : {"0", "10001", "65537"}) {
    CAPTURE(number);
    CHECK(code_of(parse_complete(complete_of("<Part><PartNumber>" + std::string(number) +
                                             "</PartNumber><ETag>x</ETag></Part>"))) ==
          S3Code::InvalidArgument);
  }
}

TEST_CASE("10,000 parts are read and one more is not") {
  std::string parts;
  for (int i = 1; i <= 10'000; ++i) {
    parts += "<Part><PartNumber>" + std::to_string(i) + "</PartNumber><ETag>\"" +
             std::string(32, 'a') + "\"</ETag></Part>";
  }
  const auto read = parse_complete(complete_of(parts));
  REQUIRE(read);
  CHECK(read->size() == 10'000);
  CHECK(read->back().number == 10'000);
  parts += "<Part><PartNumber>1</PartNumber><ETag>x</ETag></Part>";
  CHECK(code_of(parse_complete(complete_of(parts))) == S3Code::MalformedXML);
}

TEST_CASE("keys to delete are read byte for byte") {
  const auto input = parse_delete(
      delete_of("<Quiet>true</Quiet><Object><Key> </Key></Object>"
                "<Object><Key>a&amp;b&#10;c&lt;</Key><VersionId>null</VersionId></Object>"
                "<Object><Key>raw & left</Key></Object>"  // DuckDB does not escape
                "<Object><Key>k</Key><ETag>\"e\"</ETag></Object>"
                "<Object><Key>s</Key><Size>3</Size></Object>"));
  REQUIRE(input);
  CHECK(input->quiet);
  REQUIRE(input->objects.size() == 5);
  CHECK(input->objects[0].key == " ");
  CHECK(input->objects[1].key == "a&b\nc<");
  CHECK(input->objects[1].version_id == "null");
  CHECK(input->objects[2].key == "raw & left");
  CHECK(input->objects[3].etag == "\"e\"");
  CHECK_FALSE(input->objects[2].etag);
  CHECK_FALSE(input->objects[3].other_condition);
  CHECK(input->objects[4].other_condition);
}

TEST_CASE("what a document to delete may repeat in its answer is bounded") {
  const auto key = [](const std::string& text) {
    return delete_of("<Object><Key>" + text + "</Key></Object>");
  };
  CHECK(parse_delete(key(std::string(1'024, 'k'))));
  CHECK(code_of(parse_delete(key(std::string(1'025, 'k')))) == S3Code::KeyTooLongError);
  const auto version = [](std::size_t bytes) {
    return delete_of("<Object><Key>k</Key><VersionId>" + std::string(bytes, 'v') +
                     "</VersionId></Object>");
  };
  CHECK(parse_delete(version(1'024)));
  CHECK(code_of(parse_delete(version(1'025))) == S3Code::MalformedXML);
  // Ampersands that stand for themselves: those of a thousand real keys, not a megabyte of them.
  std::string objects;
  for (int i = 0; i < 1'000; ++i) objects += "<Object><Key>a&b & c&&d</Key></Object>";
  CHECK(parse_delete(delete_of(objects)));
  CHECK(code_of(parse_delete(key(std::string(10'001, '&')))) == S3Code::MalformedXML);
}

TEST_CASE("an empty ETag is a condition, and two are none that could be met") {
  for (const char* etag : {"<ETag></ETag>", "<ETag/>", "<ETag> </ETag>"}) {
    CAPTURE(etag);
    const auto input =
        parse_delete(delete_of("<Object><Key>k</Key>" + std::string(etag) + "</Object>"));
    REQUIRE(input);
    REQUIRE(input->objects.front().etag);
    CHECK(input->objects.front().etag->empty());
  }
  // Names are as S3 writes them: a condition under another one must not be passed over.
  for (const char* unknown : {"<etag></etag>", "<etag>a</etag>", "<IfMatch>a</IfMatch>"}) {
    CHECK(code_of(parse_delete(delete_of("<Object><Key>k</Key>" + std::string(unknown) +
                                         "</Object>"))) == S3Code::MalformedXML);
  }
  for (const char* twice : {"<ETag>a</ETag><ETag>a</ETag>", "<ETag/><ETag>a</ETag>",
                            "<VersionId>null</VersionId><VersionId>x</VersionId>"}) {
    CHECK(code_of(parse_delete(delete_of("<Object><Key>k</Key>" + std::string(twice) +
                                         "</Object>"))) == S3Code::MalformedXML);
  }
}

TEST_CASE("1,000 keys are deleted at once and no more") {
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += "<Object><Key>k</Key></Object>";
  REQUIRE(parse_delete(delete_of(objects)));
  CHECK(code_of(parse_delete(delete_of(objects + "<Object><Key>k</Key></Object>"))) ==
        S3Code::MalformedXML);
  CHECK(code_of(parse_delete(delete_of(""))) == S3Code::MalformedXML);
  CHECK(code_of(parse_delete(delete_of("<Object><Key></Key></Object>"))) == S3Code::MalformedXML);
  CHECK(code_of(parse_delete(delete_of("<Object><Key>a<!-- x -->b</Key></Object>"))) ==
        S3Code::MalformedXML);
}

TEST_CASE("a bucket's location is optional") {
  CHECK(parse_bucket_configuration("")->location.empty());
  CHECK(parse_bucket_configuration("\n ")->location.empty());
  const auto input = parse_bucket_configuration(
      "<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint>"
      "</CreateBucketConfiguration>");
  REQUIRE(input);
  CHECK(input->location == "eu-west-1");
  CHECK_FALSE(input->has_other);
  CHECK(parse_bucket_configuration("<CreateBucketConfiguration><Bucket><Type>Directory</Type>"
                                   "</Bucket></CreateBucketConfiguration>")
            ->has_other);
  CHECK(code_of(parse_bucket_configuration("LocationConstraint")) == S3Code::MalformedXML);
}

TEST_CASE("hostile documents are refused before they are parsed") {
  const auto nested = [](std::size_t depth) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) text += "<a>";
    return text;
  };
  std::string attributes;
  for (int i = 0; i < 100'000; ++i) attributes += " a" + std::to_string(i) + "=\"\"";
  const std::string documents[] = {
      "<!DOCTYPE d [<!ENTITY e \"x\">]><Delete><Object><Key>&e;</Key></Object></Delete>",
      "<!doctype d><Delete><Object><Key>k</Key></Object></Delete>",
      "<!ENTITY x SYSTEM \"file:///etc/passwd\">",
      "<Delete>" + nested(9),
      nested(1'000'000),
      "<Delete" + attributes + "><Object><Key>k</Key></Object></Delete>",
      delete_of(std::string(limits::kXmlBytesMax, ' ') + "<Object><Key>k</Key></Object>"),
      std::string("\xFF\xFE<\0D\0e\0l\0e\0t\0e\0>\0", 18),
      std::string("<Delete><Object><Key>a\0b</Key></Object></Delete>", 48),
      "<Delete><Object><Key>k</Key></Object>",
      "<Delete><Object><Key>k</Object></Key></Delete>",
      "<Delete><Object><Key>k</Key></Object></Delete><Delete></Delete>",
      "<Other><Object><Key>k</Key></Object></Other>",
      "</Delete>",
      "<",
      "<!--",
      "<![CDATA[",
      "<?",
      ""};
  for (const std::string& document : documents) {
    CAPTURE(document.substr(0, 80));
    CHECK(code_of(parse_delete(document)) == S3Code::MalformedXML);
    CHECK(code_of(parse_complete(document)) == S3Code::MalformedXML);
  }
}

TEST_CASE("ETags lose their quotes and nothing else") {
  CHECK(bare_etag("\"abc\"") == "abc");
  CHECK(bare_etag("  abc\n") == "abc");
  CHECK(bare_etag("\"abc") == "\"abc");
  CHECK(bare_etag("\"") == "\"");
  CHECK(bare_etag("\"\"").empty());
}

}  // namespace penstock
