#include "penstock/row_key.h"

#include <doctest/doctest.h>

#include <random>

#include "penstock/text_codec.h"
#include "tests/fake/code_of.h"

namespace penstock {
namespace {

using namespace std::string_literals;

RegisterKey register_key(RowKind kind, std::string key, std::string upload = {},
                         std::uint16_t part = 0) {
  RegisterKey made;
  made.kind = kind;
  made.bucket = BucketId{0x0102030405060708};
  made.key = std::move(key);
  made.upload_id = std::move(upload);
  made.part = part;
  return made;
}

TEST_CASE("row keys are the bytes that are frozen on disk") {
  const std::string upload(32, 'u');
  const std::string upload_hex(hex_encode(upload));
  const WriteId write{0x3132333435363738, 0x4142434445464748};
  const struct {
    RowKey key;
    std::string hex;
  } rows[] = {
      {register_key(RowKind::object, "a\0b"s), "6f0102030405060708610062"},
      {register_key(RowKind::upload, "k", upload), "7501020304050607086b00" + upload_hex},
      {register_key(RowKind::part, "k", upload, 10'000),
       "7001020304050607086b00" + upload_hex + "2710"},
      {HintRow{WallTime(Duration(0x0000051122334455)), write, kEverySlot},
       "67000005112233445531323334353637384142434445464748ff"},
      {FragmentId{write, 5, Generation{0x5152535455565758}},
       "7831323334353637384142434445464748055152535455565758"},
      {MetaRow{"ceiling"}, "6d6365696c696e67"},
  };
  for (const auto& row : rows) {
    const std::string encoded = encode_row_key(row.key);
    CHECK(hex_encode(encoded) == row.hex);
    const auto decoded = decode_row_key(encoded);
    REQUIRE(decoded);
    CHECK(*decoded == row.key);
  }
}

TEST_CASE("keys with zero bytes and upload-ids inside come back whole") {
  const std::string upload(32, '\0');
  for (const std::string& key :
       {"\0"s, "a\0"s, "a\0"s + std::string(32, 'x'), std::string(1024, '\xff')}) {
    for (const RegisterKey& row :
         {register_key(RowKind::object, key), register_key(RowKind::upload, key, upload),
          register_key(RowKind::part, key, upload, 1)}) {
      const auto decoded = decode_row_key(register_row_key(row));
      REQUIRE(decoded);
      CHECK(std::get<RegisterKey>(*decoded) == row);
      const std::string encoded = register_row_key(row);
      const auto prefix = bucket_row_prefix(row.kind, row.bucket);
      CHECK(object_key_of(row.kind, std::string_view(encoded).substr(prefix.size())) == key);
    }
  }
}

TEST_CASE("rows sort by bucket, key, upload and part number") {
  const std::string a(32, 'a');
  const std::string b(32, 'b');
  std::vector<std::string> rows;
  for (const std::string& key : {"k"s, "k1"s}) {
    for (const std::string& upload : {a, b}) {
      for (const std::uint16_t part : {1, 2, 255, 256, 10'000}) {
        rows.push_back(register_row_key(register_key(RowKind::part, key, upload, part)));
      }
    }
  }
  CHECK(std::is_sorted(rows.begin(), rows.end()));
}

TEST_CASE("what is no register is refused before it is stored") {
  const std::string upload(32, 'u');
  CHECK(check_register_key(register_key(RowKind::object, "k")));
  CHECK(!check_register_key(register_key(RowKind::object, "")));
  CHECK(!check_register_key(register_key(RowKind::object, std::string(1025, 'k'))));
  CHECK(!check_register_key(register_key(RowKind::object, "k", upload)));
  CHECK(!check_register_key(register_key(RowKind::upload, "k", "short")));
  CHECK(!check_register_key(register_key(RowKind::part, "k", upload, 0)));
  CHECK(!check_register_key(register_key(RowKind::part, "k", upload, 10'001)));
  CHECK(!check_register_key(register_key(RowKind::meta, "k")));
}

TEST_CASE("bytes that are no row key are refused") {
  for (const std::string& bytes :
       {""s, "o"s, "o1234567"s, "o12345678"s, "z12345678k"s, "x123"s, "g123"s, "m"s, "u12345678k"s,
        "i12345678k"s, "p12345678k\1"s + std::string(34, 'u'),
        "p12345678k\0"s + std::string(32, 'u') + "\0\0"s}) {
    const auto decoded = decode_row_key(bytes);
    REQUIRE(!decoded);
    CHECK(code_of(decoded) == Errc::corrupt);
  }
}

TEST_CASE("any bytes either fail or are the encoding of what they decode to") {
  std::mt19937_64 engine(7);
  const std::string kinds = "oiupgxm?";
  int decoded_count = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(engine() % 64, '\0');
    for (char& c : bytes) c = static_cast<char>(engine() % 3 == 0 ? 0 : engine());
    if (!bytes.empty()) bytes[0] = kinds[engine() % kinds.size()];
    const auto decoded = decode_row_key(bytes.data(), bytes.size());
    if (!decoded) continue;
    ++decoded_count;
    CHECK(encode_row_key(*decoded) == bytes);
  }
  CHECK(decoded_count > 1000);
}

}  // namespace
TEST_CASE("a row key names its register, or is refused") {
  const BucketId bucket{7};
  const std::string id(32, 'u');
  const auto upload = register_of_suffix(RowKind::upload, bucket, upload_suffix("key", id));
  REQUIRE(upload);
  CHECK(*upload == RegisterKey{RowKind::upload, bucket, "key", id, 0});
  const std::string part_row = upload_suffix("key", id) + std::string("\x01\x02", 2);
  const auto part = register_of_suffix(RowKind::part, bucket, part_row);
  REQUIRE(part);
  CHECK(*part == RegisterKey{RowKind::part, bucket, "key", id, 0x0102});
  CHECK(register_of_suffix(RowKind::object, bucket, "key").value().key == "key");
  for (const auto& [kind, row] :
       std::vector<std::pair<RowKind, std::string>>{{RowKind::object, ""},
                                                    {RowKind::upload, id},
                                                    {RowKind::upload, upload_suffix("", id)},
                                                    {RowKind::upload, "key+" + id},
                                                    {RowKind::part, upload_suffix("", id) + "12"},
                                                    {RowKind::part, "key+" + id + "12"}}) {
    CAPTURE(row);
    CHECK(register_of_suffix(kind, bucket, row).error().code == Errc::corrupt);
  }
}

}  // namespace penstock
