#include "gateway/auth/accounts_follower.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace penstock {
namespace {

constexpr const char* kOne = R"([{"access_key": "one", "secret_key": "12345678"}])";
constexpr const char* kTwo = R"([{"access_key": "two", "secret_key": "12345678"}])";

// A follower of a file that the test writes.
struct Followed {
  Followed() {
    std::string name = (std::filesystem::temp_directory_path() / "follower-XXXXXX").string();
    directory = ::mkdtemp(name.data());
    path = directory + "/accounts.json";
    write(kOne);
    auto accounts = read_accounts(path).value();
    accounts.push_back(root);
    store = std::make_shared<CredentialStore>(*CredentialStore::make(std::move(accounts)));
    follower = std::make_unique<AccountsFollower>(path, root, store, [this] { ++changes; });
    follower->look(false);
  }
  ~Followed() { std::filesystem::remove_all(directory); }
  void write(const std::string& text) const {
    std::ofstream(path + ".new") << text;
    ::chmod((path + ".new").c_str(), 0600);
    std::filesystem::rename(path + ".new", path);
  }
  bool has(const char* access_key) const { return store->find(access_key) != nullptr; }

  std::string directory, path;
  const Account root{"root", "12345678", "root-id", "root", ""};
  std::shared_ptr<CredentialStore> store;
  std::unique_ptr<AccountsFollower> follower;
  int changes = 0;
};

TEST_CASE("what changes in the file is in force after the next look, beside the root") {
  Followed followed;
  CHECK(followed.has("one"));
  const int before = followed.changes;
  followed.write(kTwo);
  followed.follower->look(false);
  CHECK_FALSE(followed.has("one"));
  CHECK(followed.has("two"));
  CHECK(followed.has("root"));
  CHECK(followed.changes == before + 1);
  followed.follower->look(false);
  CHECK(followed.changes == before + 1);
}

TEST_CASE("two changes within one tick of the file system's clock are both seen") {
  Followed followed;
  for (int i = 0; i < 50; ++i) {
    // In place, with the same size.
    std::ofstream(followed.path) << (i % 2 == 0 ? kTwo : kOne);
    followed.follower->look(false);
    CHECK(followed.has(i % 2 == 0 ? "two" : "one"));
  }
}

TEST_CASE("a file that is no list of accounts changes nothing and is told once") {
  const std::string shared_key = R"([{"access_key": "root", "secret_key": "12345678"}])";
  for (const std::string& text : {std::string("["), std::string(), std::string("{}"), shared_key}) {
    CAPTURE(text);
    Followed followed;
    followed.write(text);
    for (int i = 0; i < 3; ++i) followed.follower->look(false);
    CHECK(followed.has("one"));
    CHECK(followed.has("root"));
    CHECK(followed.follower->failures() == 1);
    followed.follower->ask();
    followed.follower->look(false);
    CHECK(followed.follower->failures() == 2);
    followed.write(kTwo);
    followed.follower->look(false);
    CHECK(followed.has("two"));
  }
}

TEST_CASE("a file that is away or open to others changes nothing, and may come back as it was") {
  Followed followed;
  std::filesystem::remove(followed.path);
  followed.follower->look(false);
  CHECK(followed.has("one"));
  CHECK(followed.follower->failures() == 1);
  followed.write(kOne);
  followed.follower->look(false);
  CHECK(followed.has("one"));
  REQUIRE(::chmod(followed.path.c_str(), 0644) == 0);
  followed.follower->look(false);
  CHECK(followed.follower->failures() == 2);
  REQUIRE(::chmod(followed.path.c_str(), 0600) == 0);
  followed.write(kTwo);
  followed.follower->look(false);
  CHECK(followed.has("two"));
}

}  // namespace
}  // namespace penstock
