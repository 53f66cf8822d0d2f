#include "gateway/auth/credentials.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/fake/code_of.h"
#include "tests/fake/temporary_directory.h"

namespace penstock {
namespace {

class CountingRandom final : public Random {
 public:
  void fill(std::span<std::byte> bytes) override {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(next_ += 37);
  }

 private:
  unsigned next_ = 0;
};

TEST_CASE("an accounts file gives its accounts, completed") {
  const auto accounts = parse_accounts(R"([
    {"access_key": "first", "secret_key": "12345678"},
    {"access_key": "second", "secret_key": "abcd/+=efgh", "account_id": "id-2",
     "display_name": "Zwei", "email": "z@example.com"}])");
  REQUIRE(accounts);
  REQUIRE(accounts->size() == 2);
  CHECK((*accounts)[0].account_id ==
        "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e");
  CHECK((*accounts)[0].display_name == "first");
  CHECK((*accounts)[1].account_id == "id-2");
  CHECK((*accounts)[1].display_name == "Zwei");
  CHECK((*accounts)[1].email == "z@example.com");
}

TEST_CASE("a wrong accounts file is refused with its place and never its secrets") {
  const std::pair<std::string, std::string> rows[] = {
      {"", "is not JSON"},
      {"[", "is not JSON"},
      {"{}", "is not a list"},
      {"[1]", "account 1: not an object"},
      {R"([{"access_key":"abc"}])", "account 1: \"secret_key\" is missing"},
      {R"([{"secret_key":"s3cr3t-s3cr3t"}])", "account 1: \"access_key\" is missing"},
      {R"([{"access_key":"abc","secret_key":7}])", "\"secret_key\" is not a string"},
      {R"([{"access_key":"abc","secret_key":"s3cr3t-s3cr3t","acount_id":"x"}])",
       "unknown member \"acount_id\""},
      {R"([{"access_key":"ab","secret_key":"s3cr3t-s3cr3t"}])", "access key \"ab\""},
      {R"([{"access_key":"a/b","secret_key":"s3cr3t-s3cr3t"}])", "access key \"a/b\""},
      {R"([{"access_key":"abc","secret_key":"s3cr3t"}])", "the secret key of abc"},
      {R"([{"access_key":"abc","secret_key":"s3cr3t s3cr3t"}])", "the secret key of abc"},
      {R"([{"access_key":"abc","secret_key":"s3cr3t-s3cr3t"},
           {"access_key":"abc","secret_key":"s3cr3t-s3cr3u"}])",
       "account 2: access key abc occurs twice"},
  };
  for (const auto& [json, message] : rows) {
    CAPTURE(json);
    const auto accounts = parse_accounts(json);
    REQUIRE_FALSE(accounts);
    CHECK(code_of(accounts) == Errc::invalid);
    CHECK(accounts.error().context.find(message) != std::string::npos);
    CHECK(accounts.error().context.find("s3cr3t") == std::string::npos);
  }
}

TEST_CASE("the store finds accounts by their exact access key") {
  const auto store = CredentialStore::make({{"abc", "12345678", "", "", ""}});
  REQUIRE(store);
  REQUIRE(store->find("abc"));
  CHECK(store->find("abc")->secret_key == "12345678");
  for (const std::string_view other : {"ABC", "ab", "abcd", ""}) CHECK_FALSE(store->find(other));
  CHECK_FALSE(
      CredentialStore::make({{"abc", "12345678", "", "", ""}, {"abc", "87654321", "", "", ""}}));
}

TEST_CASE("accounts are exchanged all at once, and those that stay are the same objects") {
  auto store = CredentialStore::make({{"abc", "12345678", "", "", ""},
                                      {"def", "12345678", "", "", ""},
                                      {"ghi", "12345678", "", "", ""}});
  REQUIRE(store);
  const auto kept = store->find("abc");
  const auto in_flight = store->find("def");
  auto next = CredentialStore::make({{"abc", "12345678", "", "", ""},
                                     {"ghi", "87654321", "", "", ""},
                                     {"jkl", "12345678", "", "", ""},
                                     {"mno", "12345678", "", "", ""}});
  const auto difference = store->replace(std::move(*next));
  CHECK(difference.added == 2);
  CHECK(difference.changed == 1);
  CHECK(difference.removed == 1);
  CHECK(store->find("abc") == kept);
  CHECK_FALSE(store->find("def"));
  CHECK(in_flight->secret_key == "12345678");
  CHECK(store->find("ghi")->secret_key == "87654321");
  CHECK(store->size() == 4);
}

TEST_CASE("whatever of an account changes is in force, not only its secret") {
  const Account before{"abc", "12345678", "owner", "name", "a@example.com"};
  for (const auto member :
       {&Account::secret_key, &Account::account_id, &Account::display_name, &Account::email}) {
    auto store = CredentialStore::make({before});
    Account after = before;
    after.*member = "something-else";
    CHECK(store->replace(*CredentialStore::make({after})).changed == 1);
    CHECK(*store->find("abc") == after);
  }
}

TEST_CASE("a file of secrets that is open to others is refused, and what is no file too") {
  const TemporaryDirectory directory;
  const std::string path = directory.path.string() + "/accounts.json";
  std::ofstream(path) << R"([{"access_key": "abc", "secret_key": "12345678"}])";
  for (const mode_t mode : {0644u, 0604u, 0602u, 0601u, 0620u, 0660u, 0777u}) {
    CAPTURE(mode);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    const auto refused = read_accounts(path);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::invalid);
    CHECK(refused.error().context.find("chmod 600 " + path) != std::string::npos);
  }
  for (const mode_t mode : {0600u, 0400u, 0700u}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    if (mode != 0400u || ::geteuid() == 0) CHECK(read_accounts(path));
  }
  CHECK(code_of(read_accounts(directory.path.string())) == Errc::invalid);
  const std::string pipe = directory.path.string() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(code_of(read_accounts(pipe)) == Errc::invalid);  // and does not wait for a writer
}

TEST_CASE("a root pair has S3's form and differs each time") {
  CountingRandom random;
  const Account first = make_root_account(random);
  const Account second = make_root_account(random);
  CHECK(first.access_key.size() == 20);
  CHECK(first.secret_key.size() == 40);
  CHECK(first.access_key.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") ==
        std::string::npos);
  CHECK(check_account(first));
  CHECK(first.account_id == default_account_id(first.access_key));
  CHECK(first.secret_key != second.secret_key);
}

TEST_CASE("the root pair's file is private, read back as written, and never overwritten") {
  const TemporaryDirectory directory;
  CountingRandom random;
  const Account account = make_root_account(random);
  CHECK(read_root_credentials(directory.path.string()).error().code == Errc::not_found);
  // A crash may have left the file that is renamed last.
  std::ofstream(root_credentials_path(directory.path.string()) + ".tmp") << "half";
  REQUIRE(write_root_credentials(directory.path.string(), account));
  struct stat status;
  REQUIRE(::stat(root_credentials_path(directory.path.string()).c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  const auto read = read_root_credentials(directory.path.string());
  REQUIRE(read);
  CHECK(read->access_key == account.access_key);
  CHECK(read->secret_key == account.secret_key);
  CHECK(read->account_id == account.account_id);
  const Account other = make_root_account(random);
  CHECK(code_of(write_root_credentials(directory.path.string(), other)) == Errc::invalid);
  CHECK(read_root_credentials(directory.path.string())->access_key == account.access_key);
  // One that is damaged is replaced, and is for nobody else whatever it was.
  std::ofstream(root_credentials_path(directory.path.string())) << "half";
  REQUIRE(::chmod(root_credentials_path(directory.path.string()).c_str(), 0644) == 0);
  REQUIRE(replace_root_credentials(directory.path.string(), other));
  REQUIRE(::stat(root_credentials_path(directory.path.string()).c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  CHECK(read_root_credentials(directory.path.string())->access_key == other.access_key);
}

TEST_CASE("the environment replaces the root pair as a whole and keeps what it owns") {
  CountingRandom random;
  const Account root = make_root_account(random);
  CHECK(override_root(root, "", "")->access_key == root.access_key);
  const auto changed = override_root(root, "newkey", "newsecret");
  REQUIRE(changed);
  CHECK(changed->access_key == "newkey");
  CHECK(changed->secret_key == "newsecret");
  CHECK(changed->account_id == root.account_id);
  CHECK_FALSE(override_root(root, "newkey", ""));
  CHECK_FALSE(override_root(root, "", "newsecret"));
  CHECK_FALSE(override_root(root, "newkey", "short"));
}

}  // namespace
}  // namespace penstock
