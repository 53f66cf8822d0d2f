// A run of `penstock bench`: finds or writes the data sets, measures one workload after another,
// and reports.
// Thread-safety: one thread; it blocks for as long as it takes.
#pragma once
#include "gateway/bench_arguments.h"

namespace penstock {

// Returns the exit code of the process: 0; 1 - a request has failed, or it could not be run; 2 - it
// was asked for what is not there. Progress and errors go to standard error, the table to standard
// output.
int run_bench(const BenchArguments& arguments);

}  // namespace penstock
