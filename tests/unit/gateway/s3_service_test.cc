#include "gateway/s3_service.h"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>

#include "penstock/caught.h"
#include "tests/fake/fake_cluster.h"
#include "tests/unit/gateway/auth/signing.h"

using namespace penstock;

namespace {
constexpr std::string_view kNow = "20231114T221320Z";  // of FakeClock

// A request from memory and the answer it got.
class FakeExchange final : public HttpExchange, public RawBody {
 public:
  FakeExchange(std::string method, std::string target, testing::Pairs fields, std::string body)
      : method_(std::move(method)),
        target_(std::move(target)),
        fields_(std::move(fields)),
        body_(std::move(body)) {
    head_.method = method_;
    head_.target = target_;
    for (const auto& [name, value] : fields_) head_.fields.push_back(HttpField{name, value});
    for (const auto& [name, value] : fields_) {
      if (name == "content-length") head_.framing.content_length = std::stoull(value);
    }
  }

  const HttpHead& head() const override { return head_; }
  RawBody& body() override { return *this; }
  std::uint64_t body_bytes_read() const override { return read_; }
  std::string_view request_id() const override { return "REQUEST1"; }
  std::string_view host_id() const override { return "host"; }
  bool file_pieces() const override { return false; }
  bool answered() const override { return answered_; }
  std::uint64_t body_bytes_sent() const override { return text.size(); }
  Task<> send(S3Response answer, bool close) override {
    closes = close;
    if (auto* source = std::get_if<std::unique_ptr<BodySource>>(&answer.body)) {
      while (text.size() < answer.content_length) {
        CO_TRY(piece, co_await (*source)->next());
        text += as_text(piece.bytes());
      }
    } else if (auto* whole = std::get_if<std::string>(&answer.body)) {
      text = *whole;
    }
    answered_ = true;
    response = std::move(answer);
    co_return Result<>{};
  }

  std::optional<std::uint64_t> content_length() const override { return body_.size(); }
  bool chunked() const override { return false; }
  Task<std::size_t> read(MutBytes buffer) override {
    if (throws) std::rethrow_exception(throws);
    const std::size_t count = std::min(buffer.size(), body_.size() - read_);
    std::copy_n(as_bytes(body_).begin() + static_cast<std::ptrdiff_t>(read_), count,
                buffer.begin());
    read_ += count;
    co_return count;
  }
  Task<> send_continue() override { co_return Result<>{}; }

  S3Response response;
  std::string text;
  bool closes = false;
  std::exception_ptr throws;  // from the first read of the body

  std::string header(std::string_view name) const {
    for (const auto& [key, value] : response.headers) {
      if (key == name) return value;
    }
    return {};
  }

 private:
  std::string method_;
  std::string target_;
  testing::Pairs fields_;
  std::string body_;
  HttpHead head_;
  std::size_t read_ = 0;
  bool answered_ = false;
};

struct Bench {
  FakeCluster cluster;
  CredentialStore credentials = make_credentials();
  Authenticator authenticator{credentials, cluster.clock, {}};
  FakeGateway& parts = *cluster.gateway;
  Gateway gateway{parts.index,     parts.blobs,    parts.objects,
                  parts.multipart, parts.budget,   parts.buffers,
                  cluster.clock,   cluster.random, {}};
  Metrics metrics{S3Service::operation_names(), S3Service::error_code_names()};
  S3Service service{gateway, authenticator, metrics};

  static CredentialStore make_credentials() {
    Account account;
    account.access_key = testing::kAccessKey;
    account.secret_key = testing::kSecretKey;
    std::vector<Account> accounts = {complete_account(account)};
    return CredentialStore::make(std::move(accounts)).value();
  }
  std::unique_ptr<FakeExchange> ask(const std::string& method, const std::string& target,
                                    testing::Pairs fields = {}, std::string body = {},
                                    std::exception_ptr throws = nullptr,
                                    const std::function<void()>& look = nullptr) {
    auto exchange =
        std::make_unique<FakeExchange>(method, target, std::move(fields), std::move(body));
    exchange->throws = std::move(throws);
    bool ended = false;
    boost::asio::co_spawn(cluster.io, service.handle(*exchange),
                          [&ended](std::exception_ptr failed) {
                            if (failed) std::rethrow_exception(failed);
                            ended = true;
                          });
    run_until(cluster.io, cluster.clock, [&] {
      if (look) look();  // after each step
      return ended;
    });
    return exchange;
  }
  std::unique_ptr<FakeExchange> ask_signed(const std::string& method, const std::string& path,
                                           testing::Pairs fields = {}, std::string body = {},
                                           std::exception_ptr throws = nullptr,
                                           const std::function<void()>& look = nullptr) {
    fields.emplace_back("host", "localhost");
    fields.emplace_back("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
    S3Request request = testing::sent_request(method, path, {}, std::move(fields));
    testing::SignWith with;
    with.timestamp = kNow;
    testing::sign_header(request, with);
    return ask(method, path, request.headers, std::move(body), std::move(throws), look);
  }
  bool counted(const std::string& line) const {
    return metrics.text().find("penstock_" + line + "\n") != std::string::npos;
  }
};
}  // namespace

TEST_CASE("signed requests reach their operations and are counted") {
  Bench bench;
  CHECK(bench.ask_signed("PUT", "/bucket")->response.status == 200);
  const auto put = bench.ask_signed("PUT", "/bucket/a//b", {{"content-length", "5"}}, "hello");
  CHECK(put->response.status == 200);
  const auto get = bench.ask_signed("GET", "/bucket/a//b");
  CHECK(get->response.status == 200);
  CHECK(get->text == "hello");
  CHECK(bench.ask_signed("DELETE", "/bucket/a//b")->response.status == 204);
  CHECK(bench.counted("requests_total{operation=\"PutObject\"} 1"));
  CHECK(bench.counted("request_bytes_total{operation=\"PutObject\"} 5"));
  CHECK(bench.counted("response_bytes_total{operation=\"GetObject\"} 5"));
}

TEST_CASE("a bucket whose removal was cut off can be removed again") {
  Bench bench;
  REQUIRE(bench.ask_signed("PUT", "/bucket")->response.status == 200);
  for (auto& volume : bench.cluster.volumes) volume->fail_fenced_scans = true;
  CHECK(bench.ask_signed("DELETE", "/bucket")->response.status == 503);
  CHECK(bench.ask_signed("HEAD", "/bucket")->response.status == 503);
  for (auto& volume : bench.cluster.volumes) volume->fail_fenced_scans = false;
  CHECK(bench.ask_signed("DELETE", "/bucket")->response.status == 204);
  CHECK(bench.ask_signed("HEAD", "/bucket")->response.status == 404);
}

TEST_CASE("nothing runs without a principal") {
  Bench bench;
  for (const std::string method : {"GET", "PUT", "HEAD", "POST", "DELETE"}) {
    for (const std::string target : {"/", "/bucket", "/bucket/key", "/bucket?acl", "*"}) {
      const auto answer = bench.ask(method, target, {{"host", "h"}, {"content-length", "0"}});
      CHECK(answer->response.status == 403);
    }
  }
  CHECK(bench.counted("errors_total{code=\"AccessDenied\"} 25"));
}

TEST_CASE("a preflight needs no signature and is refused as for a bucket without CORS rules") {
  Bench bench;
  const auto ask = [&](testing::Pairs headers) {
    headers.emplace_back("host", "h");
    return bench.ask("OPTIONS", "/bucket/key", std::move(headers));
  };
  CHECK(ask({})->response.status == 400);
  CHECK(ask({{"origin", "http://site"}})->text.find("<Code>BadRequest</Code>") !=
        std::string::npos);
  const auto refused = ask({{"origin", "http://site"}, {"access-control-request-method", "PUT"}});
  CHECK(refused->response.status == 403);
  CHECK(refused->text.find("<Code>AccessForbidden</Code>") != std::string::npos);
  CHECK(refused->text.find("<Method>PUT</Method>") != std::string::npos);
  CHECK(refused->text.find("<ResourceType>OBJECT</ResourceType>") != std::string::npos);
}

TEST_CASE("a form from a browser is told that forms are not served, and not that it is unsigned") {
  Bench bench;
  const auto answer =
      bench.ask("POST", "/bucket", {{"host", "h"}, {"content-type", "multipart/form-data"}}, "x");
  CHECK(answer->response.status == 501);
  CHECK(answer->text.find("<Code>NotImplemented</Code>") != std::string::npos);
}

TEST_CASE("an error is told as S3 tells it") {
  Bench bench;
  REQUIRE(bench.ask_signed("PUT", "/bucket")->response.status == 200);
  const auto answer = bench.ask_signed("GET", "/bucket/no&thing");
  CHECK(answer->response.status == 404);
  CHECK(answer->header("Content-Type") == "application/xml");
  CHECK(answer->text.find("<Code>NoSuchKey</Code>") != std::string::npos);
  CHECK(answer->text.find("<Resource>/bucket/no&amp;thing</Resource>") != std::string::npos);
  CHECK(answer->text.find("<RequestId>REQUEST1</RequestId>") != std::string::npos);
  CHECK(bench.counted("errors_total{code=\"NoSuchKey\"} 1"));
}

TEST_CASE("a target that cannot be decoded is refused before anything else") {
  Bench bench;
  const auto answer = bench.ask("GET", "/bucket/%zz", {{"host", "h"}});
  CHECK(answer->response.status == 400);
  CHECK(answer->text.find("<Code>InvalidURI</Code>") != std::string::npos);
  CHECK(bench.counted("requests_total{operation=\"Unreadable\"} 1"));
}

TEST_CASE("an upload without a length is refused") {
  Bench bench;
  REQUIRE(bench.ask_signed("PUT", "/bucket")->response.status == 200);
  CHECK(bench.ask_signed("PUT", "/bucket/key")->response.status == 411);
}

TEST_CASE("an answer of 304 has no body") {
  Bench bench;
  REQUIRE(bench.ask_signed("PUT", "/bucket")->response.status == 200);
  const auto put = bench.ask_signed("PUT", "/bucket/key", {{"content-length", "1"}}, "x");
  const auto answer =
      bench.ask_signed("GET", "/bucket/key", {{"if-none-match", put->header("ETag")}});
  CHECK(answer->response.status == 304);
  CHECK(answer->text.empty());
  CHECK(answer->header("ETag") == put->header("ETag"));
  CHECK(answer->header("Content-Type").empty());
}

TEST_CASE("an unsigned HEAD of a bucket tells the region") {
  Bench bench;
  const auto answer = bench.ask("HEAD", "/bucket", {{"host", "h"}});
  CHECK(answer->response.status == 403);
  CHECK(answer->header("x-amz-bucket-region") == "us-east-1");
}

TEST_CASE("what an operation throws is an answer and no end of the process") {
  Bench bench;
  REQUIRE(bench.ask_signed("PUT", "/bucket")->response.status == 200);
  const struct {
    std::exception_ptr thrown;
    int status;
    const char* code;
  } rows[] = {
      {std::make_exception_ptr(std::bad_alloc()), 503, "<Code>SlowDown</Code>"},
      {std::make_exception_ptr(std::out_of_range("planted")), 500, "<Code>InternalError</Code>"},
      {std::make_exception_ptr(7), 500, "<Code>InternalError</Code>"},
  };
  for (const auto& row : rows) {
    const std::uint64_t before = exceptions_caught();
    const auto put =
        bench.ask_signed("PUT", "/bucket/key", {{"content-length", "5"}}, "hello", row.thrown);
    CHECK(put->response.status == row.status);
    CHECK(put->text.find(row.code) != std::string::npos);
    CHECK(put->text.find("planted") == std::string::npos);  // not for strangers
    CHECK(put->closes);                                     // nobody knows where its body stands
    CHECK(exceptions_caught() > before);
    CHECK(bench.ask_signed("GET", "/bucket/key")->response.status == 404);
  }
  CHECK(
      bench.ask_signed("PUT", "/bucket/key", {{"content-length", "5"}}, "hello")->response.status ==
      200);
}

TEST_CASE("a long answer takes memory of the account that asked until it is gone") {
  Bench bench;
  MemoryBudget& budget = bench.cluster.gateway->budget;
  REQUIRE(bench.ask_signed("PUT", "/bucket")->response.status == 200);
  for (int i = 10; i < 40; ++i) {
    const std::string path = "/bucket/" + std::to_string(i) + std::string(900, 'k');
    REQUIRE(bench.ask_signed("PUT", path, {{"content-length", "0"}})->response.status == 200);
  }
  auto list = bench.ask_signed("GET", "/bucket");
  REQUIRE(list->response.status == 200);
  REQUIRE(list->text.size() > limits::kFreeDocumentBytes);
  const std::size_t held = budget.used_bytes(MemoryUse::documents);
  CHECK(held >= list->text.size());
  const MemoryUser asked{MemoryUse::documents,
                         budget.account(default_account_id(testing::kAccessKey))};
  const MemoryUser other{MemoryUse::documents, budget.account("other")};
  // Four fifths of all, less what is held: less for the one than for the other.
  const std::size_t between = budget.limit_bytes() / 5 * 4 - held / 10 * 9;
  CHECK_FALSE(budget.take(asked, between));
  CHECK(budget.take(other, between));
  list.reset();
  CHECK(budget.used_bytes() == 0);
}

TEST_CASE("a page of a list counts while it is read, and its text before it is made") {
  Bench bench;
  MemoryBudget& budget = bench.cluster.gateway->budget;
  REQUIRE(bench.ask_signed("PUT", "/bucket")->response.status == 200);
  for (int i = 10; i < 50; ++i) {
    std::string path = "/bucket/" + std::to_string(i);
    for (int quote = 0; quote < 300; ++quote) path += "%22";  // six bytes each, in XML
    REQUIRE(bench.ask_signed("PUT", path, {{"content-length", "0"}})->response.status == 200);
  }
  const std::size_t page = limits::kListPageMax * limits::kKeyBytesMax;
  const MemoryUser other{MemoryUse::documents, {}};
  // Room for less than the longest page: it is not even read.
  auto rest = budget.take(other, budget.limit_bytes() - page / 2);
  REQUIRE(rest);
  CHECK(bench.ask_signed("GET", "/bucket")->response.status == 503);
  *rest = MemoryBudget::Lease();
  const auto list = bench.ask_signed("GET", "/bucket");
  REQUIRE(list->response.status == 200);
  CHECK(budget.used_bytes() >= list->text.size());
}

TEST_CASE("a small upload counts until it is written") {
  Bench bench;
  REQUIRE(bench.ask_signed("PUT", "/bucket")->response.status == 200);
  int counted = 0, not_counted_since = 0;
  const auto look = [&] {
    const bool counts = bench.cluster.gateway->budget.used_bytes(MemoryUse::writes) > 0;
    counted += counts ? 1 : 0;
    not_counted_since = counts ? 0 : not_counted_since + 1;
  };
  const auto put =
      bench.ask_signed("PUT", "/bucket/key", {{"content-length", "5"}}, "hello", nullptr, look);
  CHECK(put->response.status == 200);
  CHECK(counted > 0);
  CHECK(not_counted_since <= 1);  // the answer's own step
}

TEST_CASE("a small upload counts, too: many that never end are bounded") {
  Bench bench;
  MemoryBudget& budget = bench.cluster.gateway->budget;
  REQUIRE(bench.ask_signed("PUT", "/bucket")->response.status == 200);
  auto rest = budget.take(budget.limit_bytes() - limits::kInlineUploadBytes / 2);
  REQUIRE(rest);
  CHECK(bench.ask_signed("PUT", "/bucket/empty", {{"content-length", "0"}})->response.status ==
        200);
  CHECK(
      bench.ask_signed("PUT", "/bucket/key", {{"content-length", "5"}}, "hello")->response.status ==
      503);
  *rest = MemoryBudget::Lease();
  CHECK(
      bench.ask_signed("PUT", "/bucket/key", {{"content-length", "5"}}, "hello")->response.status ==
      200);
  CHECK(budget.used_bytes() == 0);
}
