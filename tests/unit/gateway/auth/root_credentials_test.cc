// The root pair lies in every directory: what is damaged or lost in one is made up for, and no
// second pair is made while the first may still be somewhere.
#include "gateway/auth/root_credentials.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace penstock {
namespace {

struct Directories {
  std::string above = (std::filesystem::temp_directory_path() / "root-pair-XXXXXX").string();
  RootPlaces places;
  SystemRandom random;

  Directories() {
    REQUIRE(::mkdtemp(above.data()) != nullptr);
    for (const char* name : {"a", "b", "c"}) {
      places.directories.push_back(above + "/" + name);
      std::filesystem::create_directory(places.directories.back());
    }
    places.answering = places.keeping = places.directories;
    places.patience = std::chrono::seconds(1);
  }
  Directories(const Directories&) = delete;
  Directories& operator=(const Directories&) = delete;
  ~Directories() { std::filesystem::remove_all(above); }
  std::string file(std::size_t i) const { return root_credentials_path(places.directories[i]); }
  Result<RootPair> find() {
    return find_root_pair(places, [this] { return make_root_account(random); });
  }
};

TEST_CASE("a damaged copy and a lost one are written again from one that can be read") {
  Directories test;
  const auto made = test.find();
  REQUIRE(made);
  CHECK(made->is_new);
  std::ofstream(test.file(0)) << "[{";
  std::filesystem::remove(test.file(2));
  const auto found = test.find();
  REQUIRE(found);
  CHECK_FALSE(found->is_new);
  CHECK(found->account.secret_key == made->account.secret_key);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto copy = read_root_credentials(test.places.directories[i]);
    REQUIRE(copy);
    CHECK(copy->secret_key == made->account.secret_key);
    CHECK(copy->account_id == made->account.account_id);
  }
}

TEST_CASE("a directory that keeps no volume gets no copy") {
  Directories test;
  REQUIRE(test.find());
  std::filesystem::remove(test.file(1));
  test.places.keeping.erase(test.places.keeping.begin() + 1);
  REQUIRE(test.find());
  CHECK_FALSE(std::filesystem::exists(test.file(1)));
}

TEST_CASE("no new pair is made while a directory may be one whose disk is not mounted") {
  Directories test;
  test.places.keeping.erase(test.places.keeping.begin() + 1);
  const auto unseen = test.find();
  REQUIRE_FALSE(unseen);
  CHECK(unseen.error().code == Errc::unavailable);
  CHECK(unseen.error().context.find(test.places.directories[1]) != std::string::npos);
  for (std::size_t i = 0; i < 3; ++i) CHECK_FALSE(std::filesystem::exists(test.file(i)));
}

TEST_CASE("no new pair is made while the old one may be where nobody can look") {
  Directories test;
  test.places.answering.pop_back();
  const auto unseen = test.find();
  REQUIRE_FALSE(unseen);
  CHECK(unseen.error().code == Errc::unavailable);
  CHECK(unseen.error().context.find(test.places.directories[2]) != std::string::npos);
  test.places.answering = test.places.directories;
  std::ofstream(test.file(1)) << "[{";
  REQUIRE(::chmod(test.file(1).c_str(), 0600) == 0);
  const auto damaged = test.find();
  REQUIRE_FALSE(damaged);
  CHECK(damaged.error().code == Errc::invalid);
  std::filesystem::remove(test.file(1));
  REQUIRE(test.find());
}

TEST_CASE("what is no file is a damaged copy") {
  Directories test;
  REQUIRE(test.find());
  std::filesystem::remove(test.file(0));
  REQUIRE(::mkfifo(test.file(0).c_str(), 0600) == 0);
  REQUIRE(test.find());
  CHECK(read_root_credentials(test.places.directories[0]));
}

}  // namespace
}  // namespace penstock
