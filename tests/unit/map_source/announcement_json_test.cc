#include "server/map_source/announcement_json.h"

#include <doctest/doctest.h>

#include "tests/fake/code_of.h"

namespace penstock {

TEST_CASE("an announcement comes back as it was") {
  const Announcement one{
      "10.0.0.1:9200", "host\"1", "zone", {{VolumeId{0xabc}, 7}, {VolumeId{1}, 0}}};
  const std::string text = encode_announcement(one);
  CHECK(text ==
        R"({"address":"10.0.0.1:9200","host":"host\"1","volumes":[{"id":"0000000000000abc",)"
        R"("total_bytes":7},{"id":"0000000000000001","total_bytes":0}],"zone":"zone"})");
  CHECK(*decode_announcement(text) == one);
  CHECK(decode_announcement(R"({"volumes":[{"id":"1"}],"later":{}})")->volumes.size() == 1);
}

TEST_CASE("an announcement that makes no sense is refused") {
  for (const char* text :
       {"", "[]", "{}", R"({"volumes":{}})", R"({"volumes":[1]})", R"({"volumes":[{}]})",
        R"({"volumes":[{"id":"0"}]})", R"({"volumes":[{"id":"xyz"}]})",
        R"({"volumes":[{"id":"11111111111111111"}]})", R"({"volumes":[],"address":1})",
        R"({"volumes":[{"id":"1","total_bytes":-1}]})"}) {
    CAPTURE(text);
    CHECK(code_of(decode_announcement(text)) == Errc::corrupt);
  }
}

}  // namespace penstock
