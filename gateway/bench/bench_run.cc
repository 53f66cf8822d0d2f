#include "gateway/bench/bench_run.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>

#include "gateway/bench/bench_files.h"
#include "gateway/bench/bench_report.h"
#include "gateway/bench/bench_target.h"
#include "gateway/bench/workload_run.h"
#include "penstock/whole_file.h"

namespace penstock {
namespace {

constexpr int kFailed = 1;
constexpr int kInterrupted = 128 + SIGINT;  // as shells have it
constexpr std::size_t kReportBytesMax = 16 << 20;

std::atomic<bool> interrupted{false};  // by the handler of a signal

// The first one ends the run with a report, a second one the process.
void take_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted.store(true); };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    const bool known = ::sigaction(signal, nullptr, &before) == 0;
    if (known && before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
}

int complain(const Error& error) {
  std::fprintf(stderr, "penstock bench: %s\n", error.context.c_str());
  return error.code == Errc::invalid ? 2 : kFailed;
}

// What is going on, on standard error: one line that is written over on a terminal, else a line
// every ten seconds.
class Progress {
 public:
  void tell(const std::string& what, const LoadProgress& progress) {
    if (!terminal_ && bench_now() < last_ + kEvery) return;
    last_ = bench_now();
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "%s: %.0f s, %llu requests, %.2f GiB, %llu failed",
                  what.c_str(), progress.seconds, static_cast<unsigned long long>(progress.good),
                  static_cast<double>(progress.bytes) / (1 << 30),
                  static_cast<unsigned long long>(progress.failed));
    std::fprintf(stderr, terminal_ ? "\r\x1b[K%s" : "%s\n", line.data());
    std::fflush(stderr);
  }
  void clear() const {
    if (terminal_) std::fputs("\r\x1b[K", stderr);
  }

 private:
  static constexpr Duration kEvery{10'000'000};
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  BenchTime last_ = bench_now();
};

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

void raise_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Is it to be made, or made anew? What is there and is no file, as a pipe, a link or /dev/stdout,
// is written to and stays what it is.
bool is_made(const std::string& path) {
  std::error_code unknown;
  const auto type = std::filesystem::symlink_status(path, unknown).type();
  return type == std::filesystem::file_type::not_found ||
         type == std::filesystem::file_type::regular;
}

Result<> write_report(const std::string& path, const std::string& json) {
  if (is_made(path)) return replace_whole_file(path, json, 0644);
  std::error_code unknown;
  const bool has_table = std::filesystem::equivalent(path, "/dev/stdout", unknown);
  std::ofstream file(path, has_table ? std::ios::app : std::ios::trunc);
  file << json;
  file.close();
  if (file) return {};
  return fail(Errc::io, "--json: " + path + " could not be written");
}

class BenchRun {
 public:
  BenchRun(const BenchArguments& arguments, std::vector<Workload> workloads, S3Endpoint endpoint)
      : arguments_(arguments),
        workloads_(std::move(workloads)),
        target_(arguments_, content_, std::move(endpoint), interrupted,
                [this](const std::string& what, const LoadProgress& progress) {
                  progress_.tell(what, progress);
                }),
        table_(arguments.json_file == "-" ? stderr : stdout) {
    report_.name = arguments.name;
    report_.endpoint = arguments.endpoint;
    report_.when = utc_now();
    report_.scale = arguments.scale;
    report_.seconds = arguments.seconds;
    report_.with_processes = !arguments.pids.empty();
  }

  int run() {
    if (const auto ready = begin(); !ready) return stop(ready.error());
    std::fputs(table_head(report_.with_processes).c_str(), table_);
    WorkloadRun measuring(arguments_, content_, target_, std::to_string(std::time(nullptr)));
    for (const Workload& workload : workloads_) {
      if (arguments_.unsigned_requests &&
          (writes(workload) || workload.kind == Workload::Kind::list)) {
        std::fprintf(stderr, "%s is left out: a server of files has no such call\n",
                     std::string(workload.name).c_str());
        continue;
      }
      if (const auto ready = prepare(workload); !ready) {
        end();  // what was measured is not lost
        return stop(ready.error());
      }
      std::vector<BenchRow> rows = measuring.measure(workload);
      if (interrupted.load()) {
        end();
        return stop(fail(Errc::aborted, report_.rows.empty()
                                            ? "interrupted before anything was measured"
                                            : "interrupted: what was measured before is told"));
      }
      for (BenchRow& row : rows) tell(std::move(row));
    }
    if (report_.rows.empty()) {
      return stop(fail(Errc::invalid, "nothing of that can be measured on a server of files"));
    }
    return end();
  }

 private:
  int stop(const Error& error) {
    progress_.clear();
    const int code = complain(error);
    return interrupted.load() ? kInterrupted : code;
  }

  Result<> begin() {
    CHECK_OK(usage_of_processes());
    CHECK_OK(usage_of_report());
    if (!arguments_.compare_file.empty()) {  // before hours of work, not after
      TRY(text, read_whole_file(arguments_.compare_file, kReportBytesMax));
      if (const auto readable = compare(report_, text); !readable) {
        return fail(Errc::invalid, arguments_.compare_file + ": " + readable.error().context);
      }
      old_ = std::move(text);
    }
    return target_.find_bucket();
  }
  Result<> usage_of_processes() const {
    for (const int pid : arguments_.pids) {
      if (::access(("/proc/" + std::to_string(pid)).c_str(), F_OK) == 0) continue;
      return fail(Errc::invalid,
                  "--pids: there is no process " + std::to_string(pid) + " on this machine");
    }
    return {};
  }

  // Before hours of work, not after.
  Result<> usage_of_report() const {
    if (arguments_.json_file.empty() || arguments_.json_file == "-") return {};
    const std::filesystem::path file = arguments_.json_file;
    const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
    std::error_code unknown;
    const bool is_folder = std::filesystem::is_directory(file, unknown);
    const bool has_folder = std::filesystem::is_directory(folder, unknown);
    const std::string& written = is_made(arguments_.json_file) ? folder : arguments_.json_file;
    if (!is_folder && has_folder && ::access(written.c_str(), W_OK) == 0) return {};
    return fail(Errc::invalid, "--json: " + arguments_.json_file + " cannot be written");
  }

  Result<> prepare(const Workload& workload) {
    if (workload.set == SetName::none || !prepared_.insert(workload.set).second) return {};
    const bool warm = arguments_.warm_up > 0 && workload.kind != Workload::Kind::list;
    return target_.prepare(data_set(workload.set, arguments_.scale), warm);
  }

  void tell(BenchRow row) {
    progress_.clear();
    std::fputs(table_line(row, report_.with_processes).c_str(), table_);
    std::fflush(table_);
    report_.rows.push_back(std::move(row));
  }

  Result<> save() {
    std::fflush(table_);
    const std::string json = json_of(report_).dump(1) + "\n";
    if (arguments_.json_file == "-") {
      std::fputs(json.c_str(), stdout);
    } else if (!arguments_.json_file.empty()) {
      return write_report(arguments_.json_file, json);
    }
    return {};
  }

  int end() {
    if (!old_.empty()) {
      if (const auto text = compare(report_, old_)) std::fputs(("\n" + *text).c_str(), table_);
    }
    Result<> ended;
    // Without a row an earlier report stays.
    if (!interrupted.load() || !report_.rows.empty()) ended = save();
    if (ended && arguments_.remove && !interrupted.load()) ended = target_.remove_all();
    progress_.clear();
    if (interrupted.load()) return kInterrupted;
    if (!ended) return complain(ended.error());
    const bool failed = std::any_of(report_.rows.begin(), report_.rows.end(),
                                    [](const BenchRow& row) { return row.failed(); });
    return failed ? kFailed : 0;
  }

  const BenchArguments& arguments_;
  const std::vector<Workload> workloads_;
  const Content content_;
  Progress progress_;
  BenchTarget target_;
  std::FILE* table_;
  BenchReport report_;
  std::string old_;
  std::set<SetName> prepared_;
};

int write_sets(const BenchArguments& arguments, const std::vector<Workload>& workloads) {
  const Content content;
  std::set<SetName> written;
  for (const Workload& workload : workloads) {
    if (workload.set == SetName::none || !written.insert(workload.set).second) continue;
    const DataSet set = data_set(workload.set, arguments.scale);
    const auto done = write_files(arguments.write_files, arguments.bucket, set, content);
    if (!done) return complain(done.error());
  }
  return 0;
}

}  // namespace

int run_bench(const BenchArguments& given) {
  BenchArguments arguments = given;
  if (arguments.list) {
    std::fputs(describe_workloads().c_str(), stdout);
    return 0;
  }
  if (arguments.threads == 0)
    arguments.threads = std::max(1U, std::thread::hardware_concurrency() / 2);
  const auto workloads = find_workloads(arguments.only);
  if (!workloads) return complain(workloads.error());
  if (!arguments.write_files.empty()) return write_sets(arguments, *workloads);
  if (!arguments.unsigned_requests &&
      (arguments.access_key.empty() || arguments.secret_key.empty())) {
    return complain(fail(Errc::invalid,
                         "whose keys? Give --access-key and --secret-key, or AWS_ACCESS_KEY_ID and "
                         "AWS_SECRET_ACCESS_KEY; a store keeps its own in "
                         "DIR/root-credentials.json. --static needs none"));
  }
  auto endpoint = find_endpoint(arguments.endpoint);
  if (!endpoint) return complain(endpoint.error());
  raise_descriptors();
  take_interrupts();
  return BenchRun(arguments, *workloads, std::move(*endpoint)).run();
}

}  // namespace penstock
