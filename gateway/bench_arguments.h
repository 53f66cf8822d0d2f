// What `penstock bench` is given by its command line.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

struct BenchArguments {
  std::string endpoint = "http://127.0.0.1:9000";
  std::string access_key;
  std::string secret_key;
  std::string region = "us-east-1";
  bool unsigned_requests = false;  // a server that only reads files: nginx
  bool sign_header = false;        // the Authorization header in place of presigned queries
  std::string write_files;         // writes the data set as files below this directory, and ends
  std::string bucket = "bench";
  std::vector<std::string> only;  // names of workloads; empty: the usual ones
  double seconds = 6;
  double warm_up = 1;
  double scale = 1;
  double rate = 0;                // requests a second, open loop; 0: closed
  std::uint32_t connections = 0;  // in place of the workload's own; 0: its own
  std::uint32_t threads = 0;      // 0: one for two processors
  std::uint32_t accelerators = 1;
  double compute_time = 1;  // of an emulated step, times that of the published workload
  double timeout_seconds = 60;
  std::vector<int> pids;
  std::string name;  // of this run, in the table and in JSON
  std::string json_file;
  std::string compare_file;
  bool verify = false;
  bool remove = false;
  bool list = false;
};

}  // namespace penstock
