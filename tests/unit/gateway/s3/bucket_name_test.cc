#include "gateway/s3/bucket_name.h"

#include <doctest/doctest.h>

#include <string>

namespace penstock {

TEST_CASE("bucket names follow S3's rules") {
  for (const std::string& name :
       {std::string("abc"), std::string("a.b-c.1"), std::string("0foo"), std::string("1.2.3"),
        std::string("1.2.3.4a"), std::string(63, 'a'), std::string("a--x-s3b")}) {
    CAPTURE(name);
    CHECK(is_valid_bucket_name(name));
  }
  for (const std::string& name : {std::string(),
                                  std::string("a"),
                                  std::string("aa"),
                                  std::string(64, 'a'),
                                  std::string("Abc"),
                                  std::string("a_b"),
                                  std::string("a b"),
                                  std::string("a/b"),
                                  std::string("a..b"),
                                  std::string(".abc"),
                                  std::string("abc."),
                                  std::string("-abc"),
                                  std::string("abc-"),
                                  std::string("192.168.5.4"),
                                  std::string("xn--abc"),
                                  std::string("abc--x-s3"),
                                  std::string("abc-s3alias"),
                                  std::string("abc--ol-s3"),
                                  std::string("sthree-x"),
                                  std::string(".sys"),
                                  std::string("a\xC3\xA9z"),
                                  std::string("ab\0c", 4)}) {
    CAPTURE(name);
    CHECK_FALSE(is_valid_bucket_name(name));
  }
}

}  // namespace penstock
