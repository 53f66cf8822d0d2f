#include "gateway/bench_command_line.h"

#include <string>

namespace penstock {
namespace {

// As CLI::Range, through which NaN passes.
CLI::Validator between(double least, double most) {
  const auto check = [least, most](std::string& text) -> std::string {
    double value = 0;
    const bool number = CLI::detail::lexical_cast(text, value);
    if (number && value >= least && value <= most) return {};
    return text + " is not a number from " + CLI::detail::to_string(least) + " to " +
           CLI::detail::to_string(most);
  };
  return {check, "from " + CLI::detail::to_string(least) + " to " + CLI::detail::to_string(most)};
}

void add_target(CLI::App& bench, BenchArguments& arguments) {
  bench.add_option("--endpoint", arguments.endpoint, "http://HOST:PORT of the server")
      ->envname("AWS_ENDPOINT_URL")
      ->capture_default_str();
  bench
      .add_option("--access-key", arguments.access_key,
                  "Of an account; `penstock local DIR` keeps its own in DIR/root-credentials.json")
      ->envname("AWS_ACCESS_KEY_ID");
  bench.add_option("--secret-key", arguments.secret_key, "Its secret")
      ->envname("AWS_SECRET_ACCESS_KEY");
  bench.add_option("--region", arguments.region, "What signatures name")
      ->envname("AWS_DEFAULT_REGION")
      ->capture_default_str();
  bench.add_option("--bucket", arguments.bucket, "Where the data is; made if it is not there")
      ->capture_default_str();
  bench.add_flag("--sign-header", arguments.sign_header,
                 "Sign in the Authorization header; else requests are presigned");
  bench.add_flag("--static", arguments.unsigned_requests,
                 "A server that only serves files, as nginx: GET and HEAD without signatures, of\n"
                 "what --write-files has written below its root");
  bench.add_option("--write-files", arguments.write_files,
                   "ROOT: only write the data as files ROOT/BUCKET/..., for --static");
}

void add_load(CLI::App& bench, BenchArguments& arguments) {
  bench
      .add_option("--only", arguments.only,
                  "W1,W7,...: these workloads; W4 is W4a, W4b and W4c; mlperf and all are more.\n"
                  "--list names them")
      ->delimiter(',');
  bench.add_flag("--list", arguments.list, "Say which workloads there are");
  bench.add_option("--seconds", arguments.seconds, "How long each is measured")
      ->check(between(0.1, 86'400.0))
      ->capture_default_str();
  bench
      .add_option("--warm-up", arguments.warm_up,
                  "Seconds before that, which do not count; 0: also do not read the data once\n"
                  "before the first workload that reads it")
      ->check(between(0.0, 3'600.0))
      ->capture_default_str();
  bench
      .add_option("--scale", arguments.scale,
                  "Size of the data, and of uploads. 1: 2 GiB in 4 shards, 8,000 samples, 20,000\n"
                  "small objects. Other workloads have sets of their own: up to 1.3 GB each")
      ->check(between(0.001, 1'000.0))
      ->capture_default_str();
  bench
      .add_option("--rate", arguments.rate,
                  "Requests a second, in an open loop: each is sent when its time has come, and\n"
                  "its latency counts from then, also if it had to wait for a connection.\n"
                  "Without: a closed loop, each connection sends when it has its answer")
      ->check(between(0.001, 1e9));
  bench.add_option("--connections", arguments.connections, "In place of the workload's own number")
      ->check(CLI::Range(1u, 100'000u));
  bench.add_option("--threads", arguments.threads, "Of this client; default: half the processors")
      ->check(CLI::Range(1u, 1'024u));
  bench.add_option("--timeout", arguments.timeout_seconds, "Seconds until a request has failed")
      ->check(between(0.1, 86'400.0))
      ->capture_default_str();
  bench
      .add_option("--accelerators", arguments.accelerators,
                  "How many are emulated in the workloads of MLPerf")
      ->check(CLI::Range(1u, 10'000u))
      ->capture_default_str();
  bench
      .add_option("--compute-time", arguments.compute_time,
                  "Times the published time of a step: 2 is an accelerator half as fast")
      ->check(between(0.001, 1e9))
      ->capture_default_str();
  bench.add_flag("--verify", arguments.verify,
                 "Look at each byte that comes back, not only at lengths. Costs this client time");
}

void add_results(CLI::App& bench, BenchArguments& arguments) {
  bench
      .add_option("--pids", arguments.pids,
                  "PID,...: the server's processes, if they run here. Their processor time and\n"
                  "memory are reported, their children's too")
      ->delimiter(',');
  bench.add_option("--name", arguments.name, "What the run is called in its report");
  bench.add_option("--json", arguments.json_file,
                   "FILE for the report; -: standard output, and the table goes to standard error");
  bench.add_option("--compare", arguments.compare_file,
                   "A report of an earlier run: also show the ratios to it");
  bench.add_flag("--delete", arguments.remove,
                 "At the end delete all that this program ever wrote into the bucket (keys that\n"
                 "begin with penstock-bench/). Without it everything stays: the next run finds\n"
                 "its data");
}

}  // namespace

CLI::App* add_bench(CLI::App& app, BenchArguments& arguments) {
  auto* bench = app.add_subcommand(
      "bench",
      "Measures an S3 server with loads as machine-learning jobs send them. The first run on a\n"
      "server writes the data, later ones find it. Progress goes to standard error. Per line:\n"
      "requests and bytes a second, latency (p50, p99, until the first byte), and with --pids\n"
      "what the server's processes spent: CPU seconds per GiB, us per request, peak memory.\n"
      "On a busy machine trust the CPU columns, not the rates.\n"
      "Exit code 1: a request failed; the line says how many and why. 2: wrong use. 130: Ctrl-C\n"
      "or SIGTERM, which end it with a report of what was measured before.\n"
      "Examples, with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY set:\n"
      "  penstock bench --pids $(pidof penstock) --json today.json\n"
      "  penstock bench --only W1,W6,W7 --seconds 20 --compare yesterday.json\n"
      "  penstock bench --only W6get --rate 5000       # latency at a load, not at the limit\n"
      "  penstock bench --only mlperf --scale 0.5 --accelerators 2");
  add_target(*bench, arguments);
  add_load(*bench, arguments);
  add_results(*bench, arguments);
  for (CLI::Option* option : bench->get_options()) {  // said twice: the last counts
    if (option->get_items_expected_max() == 1) option->take_last();
  }
  return bench;
}

}  // namespace penstock
