#include "server/node/store_directories.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/fake/temporary_directory.h"

namespace penstock {
namespace {

TEST_CASE(
    "what lies below a single directory is noted without it, by whichever name it is called") {
  TemporaryDirectory there;
  const std::string real = std::filesystem::canonical(there.path).string() + "/real";
  const std::string link = there.path.string() + "/link";
  std::filesystem::create_directory(real);
  std::filesystem::create_symlink(real, link);
  StoreDirectories directories({link}, 6);
  directories.follow_links();
  CHECK(directories.home() == real);
  for (const std::string& name : {real, link}) {
    CHECK(directories.is_below(name + "/v1"));
    CHECK(directories.noted(name + "/v1") == "v1");
  }
  CHECK(directories.place_of("v1") == link + "/v1");
  for (const std::string& elsewhere : {real + "er/v1", std::string("/v1")}) {
    CHECK_FALSE(directories.is_below(elsewhere));
    CHECK(directories.noted(elsewhere) == elsewhere);
    CHECK(directories.place_of(elsewhere) == elsewhere);
  }
}

TEST_CASE("no disk is asked for links before that is wanted") {
  TemporaryDirectory there;
  const std::string link = there.path.string() + "/link";
  std::filesystem::create_symlink(there.path, link);
  CHECK(StoreDirectories({link}, 6).home() == link);
}

TEST_CASE("of several directories each is noted as it is") {
  StoreDirectories directories({"/a", "/b"}, 6);
  directories.follow_links();
  CHECK_FALSE(directories.is_below("/a/v1"));
  CHECK(directories.noted("/a/v1") == "/a/v1");
  CHECK(directories.place_of("/a") == "/a");
}

}  // namespace
}  // namespace penstock
