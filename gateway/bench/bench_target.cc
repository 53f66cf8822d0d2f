#include "gateway/bench/bench_target.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "gateway/s3/percent_encoding.h"

namespace penstock {
namespace {

// What S3 says where a signature is of another time than the server's.
constexpr std::array<std::string_view, 3> kOfAnotherTime{"RequestTimeTooSkewed", "is not yet valid",
                                                         "has expired"};

SignerOptions signer_options(const BenchArguments& arguments) {
  return {arguments.access_key, arguments.secret_key, arguments.region, arguments.sign_header,
          arguments.unsigned_requests};
}

constexpr Duration kAbortPatience{5'000'000};

// The text of an element without attributes, from `at` on, which moves behind it; empty if there is
// none.
std::string element(const std::string& xml, const std::string& name, std::size_t& at) {
  const std::string open = "<" + name + ">";
  const std::size_t begin = xml.find(open, at);
  if (begin == std::string::npos) return {};
  const std::size_t end = xml.find("</" + name + ">", begin);
  if (end == std::string::npos) return {};
  at = end;
  return xml.substr(begin + open.size(), end - begin - open.size());
}

std::uint32_t warm_connections(const DataSet& set) {
  return std::min<std::uint32_t>(set.fill_connections, 16);
}

}  // namespace

BenchTarget::BenchTarget(const BenchArguments& arguments, const Content& content,
                         S3Endpoint endpoint, const std::atomic<bool>& interrupted, Tell tell)
    : arguments_(arguments),
      content_(content),
      endpoint_(std::move(endpoint)),
      interrupted_(interrupted),
      signer_(signer_options(arguments), endpoint_.host,
              std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now())),
      maker_(signer_, content, arguments.bucket),
      tell_(std::move(tell)) {}

LoadOptions BenchTarget::usual(std::uint32_t connections) const {
  LoadOptions options;
  options.connections = connections;
  options.threads = arguments_.threads;
  options.timeout = Duration(static_cast<std::int64_t>(arguments_.timeout_seconds * 1e6));
  options.pids = arguments_.pids;
  options.verify = arguments_.verify;
  options.interrupted = &interrupted_;
  return options;
}

Result<LoadResult> BenchTarget::run(const std::string& what, LoadSource& source,
                                    const LoadOptions& options) {
  return run_load(endpoint_, options, content_, source, [&](const LoadProgress& progress) {
    if (tell_) tell_(what, progress);
  });
}

Result<LoadOutcome> BenchTarget::call(std::string_view method, const std::string& key,
                                      std::string_view query, std::string_view body) {
  return call(usual(1), method, key, query, body);
}

Result<LoadOutcome> BenchTarget::call(LoadOptions options, std::string_view method,
                                      const std::string& key, std::string_view query,
                                      std::string_view body) {
  OneCall source([&](LoadRequest& request) { maker_.call(request, method, key, query, body); });
  options.threads = 1;
  options.pids.clear();
  options.verify = false;
  CHECK_OK(run_load(endpoint_, options, content_, source, nullptr));
  const LoadOutcome& outcome = source.outcome();
  if (outcome.status == 0) {
    return fail(Errc::unavailable,
                arguments_.endpoint + ": " + outcome.error +
                    ". Is a server running there? `penstock local DIR` starts one on port 9000; "
                    "--endpoint names another");
  }
  return outcome;
}

Error BenchTarget::complaint(const std::string& doing, const LoadOutcome& outcome) const {
  std::string text = doing + ": " + outcome.error;
  const bool of_another_time = std::any_of(
      kOfAnotherTime.begin(), kOfAnotherTime.end(),
      [&](std::string_view words) { return outcome.body.find(words) != std::string::npos; });
  if (of_another_time) {
    text += ". The clocks of this machine and of the server differ";
  } else if (outcome.status == 403) {
    text +=
        ". Give the keys of an account by --access-key and --secret-key, or by "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; a store keeps its own in "
        "DIR/root-credentials.json";
  }
  if (!outcome.body.empty()) text += "\n  the server said: " + outcome.body.substr(0, 400);
  return fail(Errc::refused, text);
}

Result<> BenchTarget::find_bucket() {
  if (arguments_.unsigned_requests) return {};
  TRY(found, call("HEAD", {}, {}));
  if (found.good) return {};
  TRY(made, call("PUT", {}, {}));
  if (!made.good && made.status != 409) {
    return complaint("bucket \"" + arguments_.bucket + "\"", made);
  }
  made_bucket_ = made.good;
  return {};
}

Result<> BenchTarget::fill(const DataSet& set) {
  PersistentSource source(filling(maker_, set), set.count);
  LoadOptions options = usual(set.fill_connections);
  options.pids.clear();
  CHECK_OK(run("writing " + std::string(set.name), source, options));
  if (const std::string lost = source.lost(); !lost.empty()) {
    return fail(Errc::refused, "writing " + std::string(set.name) + ": " + lost +
                                   ". Run it again when that is mended");
  }
  TRY(marked, call("PUT", set.marker(), {}));
  if (!marked.good) return complaint("writing " + set.marker(), marked);
  return {};
}

Result<> BenchTarget::prepare(const DataSet& set, bool warm) {
  TRY(ready, call("HEAD", set.marker(), {}));
  if (!ready.good) {
    if (arguments_.unsigned_requests) {
      return fail(Errc::invalid, "the files of " + std::string(set.name) +
                                     " are not there: write them with --write-files ROOT, with the "
                                     "same --scale and --bucket, where ROOT is the server's root");
    }
    if (ready.status != 404) return complaint("looking for " + set.marker(), ready);
    CHECK_OK(fill(set));
  }
  if (!warm) return {};
  PersistentSource source(passing(maker_, set), set.count);
  LoadOptions options = usual(warm_connections(set));
  options.pids.clear();
  const std::string reading = "reading " + std::string(set.name) + " once";
  CHECK_OK(run(reading, source, options));
  if (const std::string lost = source.lost(); !lost.empty()) {
    return fail(Errc::refused, reading + ": " + lost +
                                   ". If its objects are not what was written, delete them "
                                   "(--delete does) and run again");
  }
  return {};
}

Result<std::string> BenchTarget::begin_upload(const std::string& key) {
  TRY(begun, call("POST", key, "uploads="));
  if (!begun.good) return complaint("beginning an upload", begun);
  std::size_t at = 0;
  std::string id = element(begun.body, "UploadId", at);
  if (id.empty()) return complaint("the answer to an upload has no UploadId", begun);
  return id;
}

Result<> BenchTarget::complete_upload(const Upload& upload) {
  std::string xml = "<CompleteMultipartUpload>";
  for (std::size_t i = 0; i < upload.etags.size(); ++i) {
    xml += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + upload.etags[i] +
           "</ETag></Part>";
  }
  xml += "</CompleteMultipartUpload>";
  const std::string query = "uploadId=" + percent_encode(upload.id, false);
  TRY(done, call("POST", upload.key, query, xml));
  // S3 may say 200 before it knows.
  if (!done.good || done.body.find("<Error>") != std::string::npos) {
    return complaint("completing an upload", done);
  }
  return {};
}

void BenchTarget::abort_upload(const Upload& upload) {
  LoadOptions options = usual(1);
  options.interrupted = nullptr;  // it is why
  options.timeout = std::min(options.timeout, kAbortPatience);
  (void)call(options, "DELETE", upload.key, "uploadId=" + percent_encode(upload.id, false));
}

Result<> BenchTarget::remove_all() {
  const std::string query =
      "list-type=2&max-keys=1000&prefix=" + percent_encode(kBenchPrefix, false);
  std::uint64_t gone = 0;
  for (;;) {
    TRY(page, call("GET", {}, query));
    if (!page.good) return complaint("listing what is to be deleted", page);
    std::vector<std::string> keys;
    std::size_t at = 0;
    for (std::string key = element(page.body, "Key", at); !key.empty();
         key = element(page.body, "Key", at)) {
      keys.push_back(std::move(key));
    }
    if (keys.empty()) break;
    PersistentSource source(
        [&](std::uint64_t number, LoadRequest& request) { maker_.remove(request, keys[number]); },
        keys.size());
    LoadOptions options = usual(16);
    options.pids.clear();
    CHECK_OK(run("deleting, " + std::to_string(gone) + " are gone", source, options));
    if (const std::string lost = source.lost(); !lost.empty()) {
      return fail(Errc::refused, "deleting: " + lost);
    }
    gone += keys.size();
  }
  if (made_bucket_) CHECK_OK(call("DELETE", {}, {}));
  return {};
}

}  // namespace penstock
